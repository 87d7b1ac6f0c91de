/**
 * @file simba/multi_locker.hpp
 * Several mutexes at once in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_MULTI_LOCKER_HPP
#define SIMBA_MULTI_LOCKER_HPP

#include <simba/locker.hpp>
#include <simba/multi_locker.h>

#include <vector>

namespace simba
{

/** All of them or none, in an order that cannot deadlock; a TimedLockable. */
class multi_locker
{
  public:
    multi_locker(store &store,
                 const std::vector<std::string> &mutexes,
                 locker_options options = {})
        : owned_(std::move(options.on_lost))
    {
        simba_multi_locker_options given = SIMBA_MULTI_LOCKER_OPTIONS_INIT;
        simba_multi_locker *handle = nullptr;
        std::vector<const char *> names;
        simba_error why = {};

        for (const std::string &mutex : mutexes) {
            names.push_back(detail::text(mutex));
        }
        given.mutexes = names.data();
        given.count = names.size();
        given.id = detail::text_or_null(options.id);
        given.times.ttl_ms = options.ttl.count();
        given.times.transition_ms = options.transition.count();
        given.times.budget_ms = options.budget.count();
        given.times.max_hold_ms = options.max_hold.count();
        given.times.min_hold_ms = options.min_hold.count();
        given.times.progress_ms = options.progress.count();
        given.on_lost = *owned_.calls() ? &multi_locker::tell_lost : nullptr;
        given.user = owned_.calls();
        detail::check(
            simba_multi_locker_open(store.get(), &given, &handle, &why), why);
        owned_.take(handle);
        count_ = names.size();
    }

    static result<multi_locker> try_open(
        store &store,
        const std::vector<std::string> &mutexes,
        locker_options options = {}) noexcept
    {
        return detail::make<multi_locker>(store, mutexes, std::move(options));
    }

    /** Wait until all are ours. */
    result<done> try_acquire() noexcept
    {
        return acquire_within(-1);
    }

    /** Likewise, so long at most; zero tries each once. */
    template <typename Rep, typename Period>
    result<done> try_acquire(
        std::chrono::duration<Rep, Period> timeout) noexcept
    {
        std::int64_t ms = detail::in_ms(timeout);

        return acquire_within(ms > 0 ? ms : 0);
    }

    result<done> try_release() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_multi_locker_release(owned_.get(), &why),
                               why);
    }

    void lock()
    {
        try_acquire().value();
    }

    bool try_lock()
    {
        return detail::got(acquire_within(0));
    }

    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &timeout)
    {
        return detail::got(try_acquire(timeout));
    }

    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &until)
    {
        return detail::got(try_acquire(until - Clock::now()));
    }

    void unlock() noexcept
    {
        (void)simba_multi_locker_release(owned_.get(), nullptr);
    }

    /** Any thread: make a waiting acquire end with SIMBA_ECANCELED. */
    void cancel() noexcept
    {
        simba_multi_locker_cancel(owned_.get());
    }

    /** Any thread: are all ours at this very instant? */
    bool is_owner() const noexcept
    {
        return simba_multi_locker_is_owner(owned_.get());
    }

    /** Any thread: the fencing token of one, 0 when it is not ours. */
    std::uint64_t token(const std::string &mutex) const noexcept
    {
        return simba_multi_locker_token(owned_.get(), mutex.c_str());
    }

    /** The work is getting on (locker_options::progress). */
    void progress() noexcept
    {
        simba_multi_locker_progress(owned_.get());
    }

    std::size_t size() const noexcept
    {
        return count_;
    }

    simba_multi_locker *get() const noexcept
    {
        return owned_.get();
    }

  private:
    using lost_function = std::function<void(const simba_error &)>;

    static void tell_lost(void *user,
                          const char *,
                          const simba_error *why) noexcept
    {
        (*static_cast<lost_function *>(user))(*why);
    }

    result<done> acquire_within(std::int64_t timeout_ms) noexcept
    {
        simba_error why = {};

        return detail::outcome(
            simba_multi_locker_acquire(owned_.get(), timeout_ms, nullptr, &why),
            why);
    }

    std::size_t count_ = 0;
    detail::owned<simba_multi_locker, simba_multi_locker_close, lost_function>
        owned_;
};

} // namespace simba

#endif
