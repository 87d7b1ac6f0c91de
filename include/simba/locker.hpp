/**
 * @file simba/locker.hpp
 * A locker in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_LOCKER_HPP
#define SIMBA_LOCKER_HPP

#include <simba/locker.h>
#include <simba/store.hpp>

namespace simba
{

struct locker_options {
    std::string id; /**< empty: made of process and host */
    milliseconds ttl{0};
    milliseconds transition{-1};
    milliseconds budget{0};
    milliseconds max_hold{0};
    milliseconds min_hold{0};
    milliseconds progress{0};
    std::function<void(const simba_error &)> on_lost;
    std::uint32_t slots{0}; /**< how many may own it; SIMBA_SHARED: any number
                               of those who share */
    std::uint32_t tell{0};  /**< what is told about us: of enum simba_tell */
    std::string command;    /**< empty: the command line of this process */
};

/** A mutex to be acquired and released, as a standard TimedLockable; and as a
 * SharedTimedLockable, for std::shared_lock. How many share it is said by its
 * options, whichever way it is locked: without slots it is ours alone. */
class locker
{
  public:
    locker(store &store, const std::string &mutex, locker_options options = {})
        : owned_(std::move(options.on_lost))
    {
        simba_locker_options given = SIMBA_LOCKER_OPTIONS_INIT;
        simba_locker *handle = nullptr;
        simba_error why = {};

        given.mutex = detail::text(mutex);
        given.id = detail::text_or_null(options.id);
        given.times.ttl_ms = options.ttl.count();
        given.times.transition_ms = options.transition.count();
        given.times.budget_ms = options.budget.count();
        given.times.max_hold_ms = options.max_hold.count();
        given.times.min_hold_ms = options.min_hold.count();
        given.times.progress_ms = options.progress.count();
        given.slots = options.slots;
        given.tell = options.tell;
        given.command = detail::text_or_null(options.command);
        given.on_lost = *owned_.calls() ? &locker::tell_lost : nullptr;
        given.user = owned_.calls();
        detail::check(simba_locker_open(store.get(), &given, &handle, &why),
                      why);
        owned_.take(handle);
    }

    static result<locker> try_open(store &store,
                                   const std::string &mutex,
                                   locker_options options = {}) noexcept
    {
        return detail::make<locker>(store, mutex, std::move(options));
    }

    /** Wait until it is ours; the fencing token, or why not. */
    result<std::uint64_t> try_acquire() noexcept
    {
        return acquire_within(-1);
    }

    /** Likewise, so long at most; zero tries once. */
    template <typename Rep, typename Period>
    result<std::uint64_t> try_acquire(
        std::chrono::duration<Rep, Period> timeout) noexcept
    {
        std::int64_t ms = detail::in_ms(timeout);

        return acquire_within(ms > 0 ? ms : 0);
    }

    /** Let go; SIMBA_ELOST when it had been lost before. */
    result<done> try_release() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_locker_release(owned_.get(), &why), why);
    }

    /* BasicLockable, Lockable, TimedLockable */

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

    /** A mutex that was lost is as free as any: ask token() and is_owner()
     * before it matters, or give on_lost. */
    void unlock() noexcept
    {
        (void)simba_locker_release(owned_.get(), nullptr);
    }

    /* SharedLockable, SharedTimedLockable */

    void lock_shared()
    {
        lock();
    }

    bool try_lock_shared()
    {
        return try_lock();
    }

    template <typename Rep, typename Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &timeout)
    {
        return try_lock_for(timeout);
    }

    template <typename Clock, typename Duration>
    bool try_lock_shared_until(
        const std::chrono::time_point<Clock, Duration> &until)
    {
        return try_lock_until(until);
    }

    void unlock_shared() noexcept
    {
        unlock();
    }

    /** Any thread: let another have the mutex, now: the one with this id, or
     * whoever is first. As simba_locker_hand_over(). */
    result<done> try_hand_over(const std::string &to = "") noexcept
    {
        simba_error why = {};

        return detail::outcome(
            simba_locker_hand_over(owned_.get(),
                                   to.empty() ? nullptr : to.c_str(), &why),
            why);
    }

    void hand_over(const std::string &to = "")
    {
        try_hand_over(to).value();
    }

    /** Any thread: make a waiting acquire end with SIMBA_ECANCELED. */
    void cancel() noexcept
    {
        simba_locker_cancel(owned_.get());
    }

    /** Any thread: the work is getting on. */
    void progress() noexcept
    {
        simba_locker_progress(owned_.get());
    }

    /** Any thread: is it ours at this very instant? */
    bool is_owner() const noexcept
    {
        return simba_locker_is_owner(owned_.get());
    }

    /** Any thread: the fencing token, 0 when not owner. */
    std::uint64_t token() const noexcept
    {
        return simba_locker_token(owned_.get());
    }

    /** Any thread: which of its slots the present or last tenure has. */
    std::uint32_t slot() const noexcept
    {
        return simba_locker_slot(owned_.get());
    }

    simba_locker *get() const noexcept
    {
        return owned_.get();
    }

  private:
    using lost_function = std::function<void(const simba_error &)>;

    static void tell_lost(void *user, const simba_error *why) noexcept
    {
        (*static_cast<lost_function *>(user))(*why);
    }

    result<std::uint64_t> acquire_within(std::int64_t timeout_ms) noexcept
    {
        std::uint64_t token = 0;
        simba_error why = {};

        if (simba_locker_acquire(owned_.get(), timeout_ms, &token, &why) !=
            SIMBA_OK) {
            return why;
        }
        return token;
    }

    detail::owned<simba_locker, simba_locker_close, lost_function> owned_;
};

} // namespace simba

#endif
