/**
 * @file simba/scheduler.hpp
 * A scheduler in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_SCHEDULER_HPP
#define SIMBA_SCHEDULER_HPP

#include <simba/scheduler.h>
#include <simba/store.hpp>

#include <exception>

namespace simba
{

/** One run of the work, as the work sees it; gone when the work returns. */
class run
{
  public:
    explicit run(const simba_run &from) noexcept : run_(&from)
    {
    }

    /** Fencing token of the tenure it belongs to. */
    std::uint64_t token() const noexcept
    {
        return run_->token;
    }

    /** Counted from 1 by this scheduler. */
    std::uint64_t number() const noexcept
    {
        return run_->number;
    }

    /** Beats that were skipped since the run before. */
    std::uint64_t skipped() const noexcept
    {
        return run_->skipped;
    }

    /** When it was due; see simba_run for by which clock. */
    milliseconds beat() const noexcept
    {
        return milliseconds(run_->beat_ms);
    }

    /** Becomes readable when the work must end; to be polled only. */
    int stop_fd() const noexcept
    {
        return run_->stop_fd;
    }

    /** Any thread: must this run come to its end? */
    bool is_stopped() const noexcept
    {
        return simba_run_is_stopped(run_);
    }

    /** Any thread: the work is getting on (scheduler_options::progress). */
    void progress() const noexcept
    {
        simba_run_progress(run_);
    }

  private:
    const simba_run *run_;
};

/** What it throws is logged and counted, and the schedule is kept. */
using work_function = std::function<void(const run &)>;

struct scheduler_options {
    std::string id; /**< empty: made of process and host */
    milliseconds initial_delay{0};
    milliseconds ttl{0};
    milliseconds transition{-1};
    milliseconds budget{0};
    milliseconds max_hold{0};
    milliseconds min_hold{0};
    milliseconds progress{0};
};

/** When the work runs. */
struct schedule {
    simba_schedule kind;
    milliseconds period;
};

/** At multiples of the period in the store's time. */
template <typename Rep, typename Period>
schedule fixed_rate(std::chrono::duration<Rep, Period> period) noexcept
{
    return {SIMBA_FIXED_RATE, milliseconds(detail::in_ms(period))};
}

/** One period after the end of the last run. */
template <typename Rep, typename Period>
schedule fixed_delay(std::chrono::duration<Rep, Period> period) noexcept
{
    return {SIMBA_FIXED_DELAY, milliseconds(detail::in_ms(period))};
}

/** Periodic work that runs only where the mutex is owned. */
class scheduler
{
  public:
    scheduler(store &store,
              const std::string &mutex,
              schedule when,
              work_function work,
              const scheduler_options &options = {})
        : owned_(std::move(work))
    {
        simba_scheduler_options given = SIMBA_SCHEDULER_OPTIONS_INIT;
        simba_scheduler *handle = nullptr;
        simba_error why = {};

        given.mutex = detail::text(mutex);
        given.id = detail::text_or_null(options.id);
        given.schedule = when.kind;
        given.period_ms = when.period.count();
        given.initial_delay_ms = options.initial_delay.count();
        given.times.ttl_ms = options.ttl.count();
        given.times.transition_ms = options.transition.count();
        given.times.budget_ms = options.budget.count();
        given.times.max_hold_ms = options.max_hold.count();
        given.times.min_hold_ms = options.min_hold.count();
        given.times.progress_ms = options.progress.count();
        given.work = *owned_.calls() ? &scheduler::carry_out : nullptr;
        given.user = owned_.calls();
        detail::check(simba_scheduler_open(store.get(), &given, &handle, &why),
                      why);
        owned_.take(handle);
    }

    static result<scheduler> try_open(
        store &store,
        const std::string &mutex,
        schedule when,
        work_function work,
        const scheduler_options &options = {}) noexcept
    {
        return detail::make<scheduler>(store, mutex, when, std::move(work),
                                       options);
    }

    result<done> try_start() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_scheduler_start(owned_.get(), &why), why);
    }

    /** Tells the work to end, and waits for it; SIMBA_EMISUSE from the work. */
    result<done> try_stop() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_scheduler_stop(owned_.get(), &why), why);
    }

    void start()
    {
        try_start().value();
    }

    void stop()
    {
        try_stop().value();
    }

    /** Any thread: do we lead at this very instant? */
    bool is_owner() const noexcept
    {
        return simba_scheduler_is_owner(owned_.get());
    }

    /** Any thread: the fencing token, 0 when not owner. */
    std::uint64_t token() const noexcept
    {
        return simba_scheduler_token(owned_.get());
    }

    enum simba_service_status status() const noexcept
    {
        return simba_scheduler_status(owned_.get());
    }

    simba_scheduler_counts counts() const noexcept
    {
        simba_scheduler_counts counts = SIMBA_SCHEDULER_COUNTS_INIT;

        (void)simba_scheduler_count(owned_.get(), &counts);
        return counts;
    }

    simba_scheduler *get() const noexcept
    {
        return owned_.get();
    }

  private:
#if defined(__cpp_exceptions)
    static int carry_out(void *user,
                         const simba_run *run,
                         simba_error *why) noexcept
    {
        try {
            (*static_cast<work_function *>(user))(simba::run(*run));
            return SIMBA_OK;
        } catch (const error &e) {
            return simba_error_set(why, e.code(), e.native(), "%s", e.what());
        } catch (const std::exception &e) {
            return simba_error_set(why, SIMBA_EINTERNAL, 0, "%s", e.what());
        } catch (...) {
            return simba_error_set(why, SIMBA_EINTERNAL, 0,
                                   "the work has thrown what is no exception");
        }
    }
#else
    static int carry_out(void *user, const simba_run *run, simba_error *)
    {
        (*static_cast<work_function *>(user))(simba::run(*run));
        return SIMBA_OK;
    }
#endif

    detail::owned<simba_scheduler, simba_scheduler_close, work_function> owned_;
};

} // namespace simba

#endif
