/**
 * @file simba/retrieval.hpp
 * Watching a mutex in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_RETRIEVAL_HPP
#define SIMBA_RETRIEVAL_HPP

#include <simba/retrieval.h>
#include <simba/service.hpp>

namespace simba
{

/** Watches who owns a mutex, without contending for it. */
class retrieval
{
  public:
    /** @param poll  look at least this often; zero: every second */
    retrieval(store &store,
              const std::string &mutex,
              state_function on_changed,
              milliseconds poll = milliseconds(0))
        : owned_(std::move(on_changed))
    {
        simba_retriever given = SIMBA_RETRIEVER_INIT;
        simba_retrieval *handle = nullptr;
        simba_error why = {};

        given.mutex = detail::text(mutex);
        given.poll_ms = poll.count();
        given.on_changed = *owned_.calls() ? &retrieval::tell : nullptr;
        given.user = owned_.calls();
        detail::check(simba_retrieval_open(store.get(), &given, &handle, &why),
                      why);
        owned_.take(handle);
    }

    static result<retrieval> try_open(
        store &store,
        const std::string &mutex,
        state_function on_changed,
        milliseconds poll = milliseconds(0)) noexcept
    {
        return detail::make<retrieval>(store, mutex, std::move(on_changed),
                                       poll);
    }

    result<done> try_start() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_retrieval_start(owned_.get(), &why), why);
    }

    result<done> try_stop() noexcept
    {
        simba_error why = {};

        return detail::outcome(simba_retrieval_stop(owned_.get(), &why), why);
    }

    void start()
    {
        try_start().value();
    }

    void stop()
    {
        try_stop().value();
    }

    enum simba_service_status status() const noexcept
    {
        return simba_retrieval_status(owned_.get());
    }

    simba_retrieval *get() const noexcept
    {
        return owned_.get();
    }

  private:
    static void tell(void *user, const simba_state *state) noexcept
    {
        (*static_cast<state_function *>(user))(*state);
    }

    detail::owned<simba_retrieval, simba_retrieval_close, state_function>
        owned_;
};

} // namespace simba

#endif
