/* simba.hpp: handles that close themselves, the standard's locks, results. */
#include "check.hpp"

#include <simba/admin.h>
#include <simba/report.h>
#include <simba/simba.hpp>

#include <atomic>
#include <mutex>
#include <poll.h>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<simba::store>);
static_assert(!std::is_copy_constructible_v<simba::locker>);
static_assert(!std::is_copy_constructible_v<simba::service>);
static_assert(std::is_nothrow_move_constructible_v<simba::store>);
static_assert(std::is_nothrow_move_constructible_v<simba::locker>);
static_assert(std::is_nothrow_move_constructible_v<simba::service>);

namespace
{

bool standard_locks_work()
{
    simba::store store{"memory:cpp"};
    simba::locker a{store, "mutex"}, b{store, "mutex"};

    {
        std::lock_guard guard{a};
        CHECK(a.is_owner());
        CHECK(a.token() > 0);
        std::unique_lock other{b, std::try_to_lock};
        CHECK(!other.owns_lock());
        CHECK(!b.try_lock_for(20ms));
        CHECK(!b.try_lock_until(std::chrono::system_clock::now() + 20ms));
    }
    CHECK(!a.is_owner());
    std::unique_lock timed{b, 1s};
    CHECK(timed.owns_lock());
    timed.unlock();
    std::scoped_lock both{a};
    CHECK(a.is_owner());
    return true;
}

bool tokens_grow()
{
    simba::store store{"memory:cpp"};
    simba::locker locker{store, "tokens"};
    std::uint64_t first = locker.try_acquire().value();

    CHECK(locker.token() == first);
    CHECK(locker.try_release());
    auto second = locker.try_acquire(1s);
    CHECK(second && *second > first);
    return true;
}

bool failures_throw_or_are_results()
{
    try {
        simba::store store{"nostore:"};
        return false;
    } catch (const simba::error &e) {
        CHECK(e.code() == SIMBA_EINVAL);
        CHECK(std::string_view(e.name()) == "invalid");
        CHECK(std::string_view(e.what()).size() > 0);
    }
    auto none = simba::store::try_open("nostore:");
    CHECK(!none);
    CHECK(none.code() == SIMBA_EINVAL);
    CHECK(none.error().message[0] != '\0');

    simba::store store{"memory:cpp"};
    CHECK(simba::locker::try_open(store, "").code() == SIMBA_EINVAL);
    CHECK(simba::service::try_open(store, {}).code() == SIMBA_EINVAL);
    CHECK(simba::locker::try_open(store, std::string("a\0b", 3)).code() ==
          SIMBA_EINVAL); /* not the mutex "a" */
    simba::locker a{store, "busy"}, b{store, "busy"};
    a.lock();
    CHECK(b.try_acquire(0s).code() == SIMBA_EBUSY);
    CHECK(b.try_acquire(10ms).code() == SIMBA_ETIMEDOUT);
    try {
        a.lock();
        return false;
    } catch (const simba::error &e) {
        CHECK(e.code() == SIMBA_EMISUSE);
    }
    return true;
}

bool handles_move_with_what_they_hold()
{
    simba::store first{"memory:cpp"};
    simba::store store{std::move(first)};
    simba::locker from{store, "moved"};

    from.lock();
    std::vector<simba::locker> lockers;
    lockers.push_back(std::move(from));
    CHECK(lockers[0].is_owner());
    simba::locker other{store, "moved"};
    CHECK(!other.try_lock());
    lockers.clear(); /* released by the destructor */
    CHECK(other.try_lock());
    return true;
}

bool losses_are_told()
{
    simba::store store{"memory:cpp"};
    simba::locker_options options;
    flag told;
    std::atomic<int> code{0};

    options.max_hold = 50ms;
    options.on_lost = [&](const simba_error &why) {
        code = why.code;
        told.set();
    };
    simba::locker locker{store, "lost", options};
    simba::locker moved{std::move(locker)}; /* the callback moves along */
    moved.lock();
    CHECK(told.wait());
    CHECK(code == SIMBA_ELOST);
    CHECK(moved.try_release().code() == SIMBA_ELOST);
    return true;
}

bool waits_are_cancelled()
{
    simba::store store{"memory:cpp"};
    simba::locker a{store, "cancel"}, b{store, "cancel"};
    std::atomic<int> code{SIMBA_OK};
    std::atomic<bool> is_back{false};

    a.lock();
    std::thread waiter{[&] {
        code = b.try_acquire().code();
        is_back = true;
    }};
    auto until = std::chrono::steady_clock::now() + 20s;
    while (!is_back && std::chrono::steady_clock::now() < until) {
        b.cancel();
        std::this_thread::yield();
    }
    waiter.join();
    CHECK(code == SIMBA_ECANCELED);
    return true;
}

bool several_mutexes_are_one_lock()
{
    simba::store store{"memory:cpp"};
    simba::multi_locker both{store, {"y", "x"}};
    simba::locker x{store, "x"};

    CHECK(both.size() == 2);
    {
        std::lock_guard guard{both};
        CHECK(both.is_owner());
        CHECK(both.token("x") > 0 && both.token("y") > 0);
        CHECK(!x.try_lock());
    }
    CHECK(x.try_lock());
    CHECK(!both.try_lock_for(10ms));
    CHECK(simba::multi_locker::try_open(store, {"x", "x"}).code() ==
          SIMBA_EINVAL);
    return true;
}

bool services_call_back()
{
    std::atomic<int> logged{0};
    simba::store_options options;
    flag acquired, released;
    std::atomic<std::uint64_t> token{0};

    options.log = [&](simba_log_level, const char *, const char *) {
        logged++;
    };
    options.log_level = SIMBA_LOG_DEBUG;
    simba::store store{"memory:cpp", options};
    simba::contender contender;
    contender.mutex = "service";
    contender.on_acquired = [&](const simba_state &state) {
        token = state.after.token;
        acquired.set();
    };
    contender.on_released = [&](const simba_state &) { released.set(); };
    {
        simba::service service{store, contender};
        CHECK(service.status() == SIMBA_INITIAL);
        service.start();
        CHECK(acquired.wait());
        CHECK(service.is_owner());
        CHECK(service.token() == token);
        CHECK(service.try_start().code() == SIMBA_EMISUSE);
        service.stop();
        CHECK(released.wait());
        service.start();
    }
    CHECK(logged > 0);
    return true;
}

bool callbacks_run_in_a_poll_loop()
{
    simba::store_options options;
    int stopped = 1;
    simba_cause cause = SIMBA_CAUSE_NONE;

    options.dispatch = true;
    simba::store store{"memory:cpp", options};
    simba::contender contender;
    contender.mutex = "poll loop";
    contender.on_released = [&](const simba_state &state) {
        cause = state.cause;
    };
    simba::service service{store, contender};
    CHECK(store.fd() >= 0);
    service.start();
    pollfd set{store.fd(), POLLIN, 0};
    CHECK(poll(&set, 1, 10000) == 1 && store.dispatch() == 1);
    service.stop_async([&](int status) { stopped = status; });
    while (stopped == 1 && poll(&set, 1, 10000) == 1) {
        store.dispatch();
    }
    CHECK(stopped == SIMBA_OK && cause == SIMBA_CAUSE_STOPPED);
    return true;
}

/* It may come a moment after the mutex was acquired. */
bool is_told(simba::store &store, const char *mutex, const std::string &command)
{
    for (int i = 0; i < 1000; i++) {
        simba_report *report = nullptr;
        bool is_there = simba_admin_told(store.get(), mutex, &report,
                                         nullptr) == SIMBA_OK &&
                        simba_report_told_count(report) == 1 &&
                        command == simba_report_told(report, 0)->command;

        simba_report_close(report);
        if (is_there) {
            return true;
        }
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

bool owners_tell_about_themselves()
{
    simba::store store{"memory:cpp"};
    simba::locker_options options;
    simba::contender contender;

    options.tell = contender.tell = SIMBA_TELL_COMMAND;
    options.command = contender.command = "the command";
    simba::locker locker{store, "told by a locker", options};
    std::unique_lock lock{locker};
    CHECK(is_told(store, "told by a locker", "the command"));
    contender.mutex = "told by a service";
    simba::service service{store, contender};
    service.start();
    CHECK(is_told(store, "told by a service", "the command"));
    return true;
}

} // namespace

int main()
{
    tell(standard_locks_work(), "standard_locks_work");
    tell(tokens_grow(), "tokens_grow");
    tell(failures_throw_or_are_results(), "failures_throw_or_are_results");
    tell(handles_move_with_what_they_hold(),
         "handles_move_with_what_they_hold");
    tell(losses_are_told(), "losses_are_told");
    tell(waits_are_cancelled(), "waits_are_cancelled");
    tell(several_mutexes_are_one_lock(), "several_mutexes_are_one_lock");
    tell(services_call_back(), "services_call_back");
    tell(callbacks_run_in_a_poll_loop(), "callbacks_run_in_a_poll_loop");
    tell(owners_tell_about_themselves(), "owners_tell_about_themselves");
    return summary();
}
