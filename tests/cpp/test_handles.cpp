/* simba.hpp: schedulers, observers, metrics, guards, executors, and handles
 * that are moved over one another. */
#include "check.hpp"

#include <simba/simba.hpp>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<simba::scheduler>);
static_assert(!std::is_copy_constructible_v<simba::retrieval>);
static_assert(!std::is_copy_constructible_v<simba::metrics>);
static_assert(!std::is_copy_constructible_v<simba::guard_file>);
static_assert(std::is_nothrow_move_assignable_v<simba::store>);
static_assert(std::is_nothrow_move_assignable_v<simba::locker>);
static_assert(std::is_nothrow_move_assignable_v<simba::service>);
static_assert(std::is_nothrow_move_assignable_v<simba::scheduler>);
static_assert(std::is_nothrow_move_assignable_v<simba::retrieval>);

namespace
{

/* True as soon as the condition is. */
template <typename Condition> bool within_patience(Condition condition)
{
    auto until = std::chrono::steady_clock::now() + 20s;

    while (!condition()) {
        if (std::chrono::steady_clock::now() > until) {
            return false;
        }
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

bool schedulers_run_their_work()
{
    simba::store store{"memory:cpp"};
    std::atomic<int> runs{0};
    std::atomic<bool> is_token{true}, is_mine{true};
    simba::scheduler scheduler{
        store, "scheduled", simba::fixed_delay(1ms),
        [&](const simba::run &run) {
            is_token = is_token && run.token() > 0 && !run.is_stopped();
            is_mine = is_mine && run.number() == std::uint64_t(runs) + 1;
            run.progress();
            runs++;
        }};

    CHECK(scheduler.status() == SIMBA_INITIAL);
    scheduler.start();
    CHECK(scheduler.try_start().code() == SIMBA_EMISUSE);
    CHECK(within_patience([&] { return runs > 3; }));
    CHECK(scheduler.is_owner() && scheduler.token() > 0);
    scheduler.stop();
    CHECK(scheduler.counts().runs == std::uint64_t(runs));
    CHECK(scheduler.counts().tenures == 1);
    CHECK(is_token && is_mine);
    return true;
}

bool work_is_told_to_end()
{
    simba::store store{"memory:cpp"};
    flag begun;
    std::atomic<bool> is_ended{false};
    simba::scheduler_options options;

    options.ttl = 5s;
    options.progress = 4s;
    simba::scheduler scheduler{store, "told", simba::fixed_rate(1ms),
                               [&](const simba::run &run) {
                                   begun.set();
                                   while (!run.is_stopped()) {
                                       run.progress();
                                       std::this_thread::sleep_for(1ms);
                                   }
                                   is_ended = true;
                               },
                               options};
    scheduler.start();
    CHECK(begun.wait());
    scheduler.stop();
    CHECK(is_ended);
    return true;
}

/* The schedule is kept, whatever is thrown. */
bool work_may_throw()
{
    std::mutex guard;
    std::string said;
    simba::store_options options;

    options.log = [&](simba_log_level, const char *, const char *message) {
        std::lock_guard lock{guard};
        said += message;
        said += '\n';
    };
    simba::store store{"memory:cpp", options};
    std::atomic<int> runs{0};
    simba::scheduler scheduler{store, "throwing", simba::fixed_delay(1ms),
                               [&](const simba::run &) {
                                   switch (runs++) {
                                   case 0:
                                       throw std::runtime_error("out of tea");
                                   case 1:
                                       throw 42;
                                   case 2:
                                       simba::store nowhere{"nostore:"};
                                   }
                               }};
    scheduler.start();
    CHECK(within_patience([&] { return runs > 5; }));
    scheduler.stop();
    CHECK(scheduler.counts().failures == 3);
    CHECK(said.find("out of tea") != std::string::npos);
    CHECK(said.find("no exception") != std::string::npos);
    return true;
}

bool schedulers_without_sense_are_refused()
{
    simba::store store{"memory:cpp"};
    auto work = [](const simba::run &) {};

    CHECK(simba::scheduler::try_open(store, "x", simba::fixed_rate(0ms), work)
              .code() == SIMBA_EINVAL);
    CHECK(simba::scheduler::try_open(store, "x", simba::fixed_rate(1s), {})
              .code() == SIMBA_EINVAL);
    CHECK(simba::retrieval::try_open(store, "x", {}).code() == SIMBA_EINVAL);
    return true;
}

bool observers_see_owners()
{
    simba::store store{"memory:cpp"};
    std::atomic<int> came{0}, went{0};
    simba::retrieval retrieval{store, "watched",
                               [&](const simba_state &state) {
                                   (state.after.token != 0 ? came : went)++;
                               },
                               1h};

    retrieval.start();
    CHECK(within_patience([&] { return retrieval.status() == SIMBA_RUNNING; }));
    {
        simba::locker locker{store, "watched"};
        std::lock_guard lock{locker};
        CHECK(within_patience([&] { return came == 1; }));
    }
    CHECK(within_patience([&] { return went == 1; }));
    retrieval.stop();
    CHECK(retrieval.status() == SIMBA_INITIAL);
    return true;
}

bool metrics_are_counted()
{
    simba::store store{"memory:cpp"};
    simba::locker locker{store, "counted"};

    for (int i = 0; i < 3; i++) {
        std::lock_guard lock{locker};
    }
    simba::metrics metrics{store};
    CHECK(metrics.of("counted").acquires == 3);
    CHECK(metrics.of("nothing").acquires == 0);
    CHECK(metrics.size() == 1 && std::string(metrics.mutex(0)) == "counted");
    CHECK(metrics[0].releases == 3);
    CHECK(metrics.of_store().contenders == 1);
    CHECK(metrics.text().find("simba_acquires_total") != std::string::npos);
    CHECK(simba::metrics::try_save(store, "/nowhere/metrics").code() ==
          SIMBA_EIO);
    return true;
}

bool guards_refuse_stale_tokens()
{
    char directory[] = "/tmp/simba-cpp-XXXXXX";
    CHECK(mkdtemp(directory) != nullptr);
    std::string path = std::string(directory) + "/guard";
    {
        simba::guard_file guard{path}, other{path};
        {
            auto inside = guard.enter(7, 5s);
            CHECK(other.try_enter(8, 0s).code() == SIMBA_EBUSY);
        }
        CHECK(other.try_enter(8));
        CHECK(guard.try_enter(7).code() == SIMBA_ELOST);
        try {
            auto inside = guard.enter(7);
            return false;
        } catch (const simba::error &e) {
            CHECK(e.code() == SIMBA_ELOST);
        }
    }
    CHECK(unlink(path.c_str()) == 0 && rmdir(directory) == 0);
    CHECK(simba::guard_judge(simba::guard_mark(7), 7));
    CHECK(simba::guard_judge(simba::guard_mark(8), 7).code() == SIMBA_ELOST);
    return true;
}

bool callbacks_run_on_an_executor()
{
    std::mutex guard;
    std::deque<std::function<void()>> queue;
    simba::store_options options;
    auto work_off = [&] {
        std::unique_lock lock{guard};
        while (!queue.empty()) {
            std::function<void()> next = std::move(queue.front());
            queue.pop_front();
            lock.unlock();
            next();
            lock.lock();
        }
    };

    options.executor = [&](std::function<void()> task) {
        std::lock_guard lock{guard};
        queue.push_back(std::move(task));
        return true;
    };
    simba::store store{"memory:cpp", options};
    simba::contender contender;
    std::thread::id ran_on;
    contender.mutex = "executed";
    contender.on_acquired = [&](const simba_state &) {
        ran_on = std::this_thread::get_id();
    };
    simba::service service{store, contender};
    service.start();
    CHECK(within_patience([&] {
        work_off();
        return ran_on == std::this_thread::get_id();
    }));
    std::atomic<bool> is_stopped{false};
    std::thread stopper{[&] {
        service.stop();
        is_stopped = true;
    }};
    CHECK(within_patience([&] {
        work_off();
        return is_stopped.load();
    }));
    stopper.join();
    return true;
}

/* What is moved over is closed first, with its callbacks still there. */
bool handles_are_moved_over_one_another()
{
    simba::store store{"memory:cpp"};
    std::atomic<int> released{0};
    std::vector<flag> acquired(2);
    auto contender_of = [&](int i) {
        simba::contender contender;
        contender.mutex = "over " + std::to_string(i);
        contender.on_acquired = [&acquired, i](const simba_state &) {
            acquired[std::size_t(i)].set();
        };
        /* More than fits into a std::function without an allocation. */
        contender.on_released = [&released, text = std::string(100, 'x'),
                                 i](const simba_state &) {
            released += text == std::string(100, 'x') ? 1 << i : 1000;
        };
        return contender;
    };

    {
        simba::service a{store, contender_of(0)}, b{store, contender_of(1)};
        a.start();
        b.start();
        CHECK(acquired[0].wait() && acquired[1].wait());
        a = std::move(b);
        CHECK(released == 1);
        CHECK(a.is_owner());
    }
    CHECK(released == 3);
    return true;
}

bool longest_waits_are_for_ever()
{
    simba::store store{"memory:cpp"};
    simba::locker locker{store, "for ever"};

    CHECK(locker.try_lock_for(std::chrono::hours::max()));
    locker.unlock();
    CHECK(locker.try_lock_for(std::chrono::duration<double>(1e300)));
    locker.unlock();
    CHECK(locker.try_lock_for(std::chrono::nanoseconds(-1)));
    locker.unlock();
    return true;
}

bool several_share_a_locker()
{
    simba::store store{"memory:cpp"};
    simba::locker_options shared;
    shared.slots = SIMBA_SHARED;
    simba::locker a{store, "shared", shared};
    simba::locker b{store, "shared", shared};
    simba::locker alone{store, "shared"};
    {
        std::shared_lock first{a};
        std::shared_lock second{b, 10s};
        CHECK(second.owns_lock());
        CHECK(a.slot() == 0 && b.slot() == 1);
        CHECK(!alone.try_lock());
    }
    CHECK(alone.try_lock());
    std::shared_lock third{a, std::try_to_lock};
    CHECK(!third.owns_lock());
    return true;
}

bool owners_hand_over()
{
    simba::store store{"memory:cpp"};
    simba::contender of_two;
    flag acquired;
    of_two.mutex = "handed over";
    of_two.slots = 2;
    of_two.on_acquired = [&](const simba_state &) { acquired.set(); };
    of_two.on_released = [](const simba_state &) {};
    simba::service service{store, of_two};
    simba::locker_options options;
    options.slots = 2;
    simba::locker a{store, "handed over", options};
    simba::locker b{store, "handed over", options};

    CHECK(a.try_hand_over().error().code == SIMBA_ELOST);
    CHECK(a.try_lock() && b.try_lock());
    service.start();
    CHECK(a.token() < b.token());
    a.hand_over();
    CHECK(acquired.wait());
    CHECK(!a.is_owner() && b.is_owner() && service.is_owner());
    CHECK(service.try_hand_over("nobody here"));
    service.stop();
    return true;
}

} // namespace

int main()
{
    tell(schedulers_run_their_work(), "schedulers_run_their_work");
    tell(work_is_told_to_end(), "work_is_told_to_end");
    tell(work_may_throw(), "work_may_throw");
    tell(schedulers_without_sense_are_refused(),
         "schedulers_without_sense_are_refused");
    tell(observers_see_owners(), "observers_see_owners");
    tell(metrics_are_counted(), "metrics_are_counted");
    tell(guards_refuse_stale_tokens(), "guards_refuse_stale_tokens");
    tell(callbacks_run_on_an_executor(), "callbacks_run_on_an_executor");
    tell(handles_are_moved_over_one_another(),
         "handles_are_moved_over_one_another");
    tell(longest_waits_are_for_ever(), "longest_waits_are_for_ever");
    tell(owners_hand_over(), "owners_hand_over");
    tell(several_share_a_locker(), "several_share_a_locker");
    return summary();
}
