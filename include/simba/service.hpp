/**
 * @file simba/service.hpp
 * A service in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_SERVICE_HPP
#define SIMBA_SERVICE_HPP

#include <simba/service.h>
#include <simba/store.hpp>

#include <memory>

namespace simba
{

using state_function = std::function<void(const simba_state &)>;

struct contender {
    std::string mutex;
    std::string id; /**< empty: made of process and host */
    milliseconds ttl{0};
    milliseconds transition{-1};
    milliseconds budget{0};
    milliseconds initial_delay{0};
    milliseconds max_hold{0};
    milliseconds min_hold{0};
    milliseconds progress{0};
    std::uint32_t slots{0}; /**< how many may own it; SIMBA_SHARED: any number
                               of those who share */
    state_function on_acquired, on_released, on_changed;
    std::uint32_t tell{0}; /**< what is told about us: of enum simba_tell */
    std::string command;   /**< empty: the command line of this process */
};

/** The running contention of one contender. */
class service
{
  public:
    service(store &store, contender contender)
        : owned_({std::move(contender.on_acquired),
                  std::move(contender.on_released),
                  std::move(contender.on_changed)})
    {
        simba_contender given = SIMBA_CONTENDER_INIT;
        simba_service *handle = nullptr;
        simba_error why = {};

        given.mutex = detail::text(contender.mutex);
        given.id = detail::text_or_null(contender.id);
        given.times.ttl_ms = contender.ttl.count();
        given.times.transition_ms = contender.transition.count();
        given.times.budget_ms = contender.budget.count();
        given.initial_delay_ms = contender.initial_delay.count();
        given.times.max_hold_ms = contender.max_hold.count();
        given.times.min_hold_ms = contender.min_hold.count();
        given.times.progress_ms = contender.progress.count();
        given.slots = contender.slots;
        given.tell = contender.tell;
        given.command = detail::text_or_null(contender.command);
        given.on_acquired = &service::call<&calls::on_acquired>;
        given.on_released = &service::call<&calls::on_released>;
        given.on_changed = owned_.calls()->on_changed
                               ? &service::call<&calls::on_changed>
                               : nullptr;
        given.user = owned_.calls();
        detail::check(simba_service_open(store.get(), &given, &handle, &why),
                      why);
        owned_.take(handle);
    }

    static result<service> try_open(store &store, contender contender) noexcept
    {
        return detail::make<service>(store, std::move(contender));
    }

    result<done> try_start() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_service_start(owned_.get(), &why), why);
    }

    result<done> try_stop() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_service_stop(owned_.get(), &why), why);
    }

    /** Stop without waiting; `on_stopped` gets what stop() would throw, or
     * SIMBA_OK. As simba_service_stop_async(). */
    void stop_async(std::function<void(int)> on_stopped)
    {
        std::unique_ptr<stopped_function> call(
            new stopped_function(std::move(on_stopped)));
        simba_error why = {};

        detail::check(simba_service_stop_async(owned_.get(),
                                               &service::tell_stopped,
                                               call.get(), &why),
                      why);
        (void)call.release();
    }

    void start()
    {
        try_start().value();
    }

    void stop()
    {
        try_stop().value();
    }

    /** Any thread: let another have the mutex, now: the one with this id, or
     * whoever is first. As simba_service_hand_over(). */
    result<done> try_hand_over(const std::string &to = "") noexcept
    {
        simba_error why = {};

        return detail::outcome(
            simba_service_hand_over(owned_.get(),
                                    to.empty() ? nullptr : to.c_str(), &why),
            why);
    }

    void hand_over(const std::string &to = "")
    {
        try_hand_over(to).value();
    }

    bool is_owner() const noexcept
    {
        return simba_service_is_owner(owned_.get());
    }

    std::uint64_t token() const noexcept
    {
        return simba_service_token(owned_.get());
    }

    enum simba_service_status status() const noexcept
    {
        return ::simba_service_status(owned_.get());
    }

    /** Say that the work is getting on. */
    void progress() noexcept
    {
        simba_service_progress(owned_.get());
    }

    simba_service *get() const noexcept
    {
        return owned_.get();
    }

  private:
    struct calls {
        state_function on_acquired, on_released, on_changed;
    };

    using stopped_function = std::function<void(int)>;

    static void tell_stopped(void *user, int status) noexcept
    {
        std::unique_ptr<stopped_function> call(
            static_cast<stopped_function *>(user));

        if (*call) {
            (*call)(status);
        }
    }

    template <state_function calls::*Which>
    static void call(void *user, const simba_state *state) noexcept
    {
        state_function &function = static_cast<calls *>(user)->*Which;

        if (function) {
            function(*state);
        }
    }

    detail::owned<simba_service, simba_service_close, calls> owned_;
};

} // namespace simba

#endif
