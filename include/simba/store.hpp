/**
 * @file simba/store.hpp
 * A store in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_STORE_HPP
#define SIMBA_STORE_HPP

#include <simba/owned.hpp>
#include <simba/result.hpp>
#include <simba/store.h>

#include <functional>
#include <string>
#include <utility>

namespace simba
{

using log_function =
    std::function<void(simba_log_level, const char *, const char *)>;

/** Runs a callback once, soon, on whatever thread: as simba_executor_fn. False
 * has it run on a callback thread after all. */
using executor_function = std::function<bool(std::function<void()>)>;

struct store_options {
    log_function log;
    simba_log_level log_level = SIMBA_LOG_DEFAULT;
    int callback_threads = 0;
    simba_config_use config = SIMBA_CONFIG_WHEN_ASKED;
    executor_function executor; /**< empty: callback threads */
    bool look = false;          /**< make nothing by opening */
    /** How long to wait for a server that is down; less than 0: for ever. See
     * simba_store_options. */
    int64_t wait_ms = 0;
    bool dispatch = false; /**< callbacks run in store::dispatch() only */
};

/** A place where mutexes live. It must outlive what is made from it. */
class store
{
  public:
    /** The store that is configured (docs/configuration.md). */
    store() : store(nullptr)
    {
    }

    explicit store(const std::string &url, store_options options = {})
        : store(detail::text(url), std::move(options))
    {
    }

    explicit store(const char *url, store_options options = {})
        : owned_({std::move(options.log), std::move(options.executor)})
    {
        simba_store_options given = SIMBA_STORE_OPTIONS_INIT;
        simba_store *handle = nullptr;
        simba_error why = {};

        given.log = owned_.calls()->log ? &store::write_log : nullptr;
        given.log_user = owned_.calls();
        given.log_level = options.log_level;
        given.callback_threads = options.callback_threads;
        given.config = options.config;
        given.executor = owned_.calls()->executor ? &store::execute : nullptr;
        given.executor_user = owned_.calls();
        given.look = options.look;
        given.wait_ms = options.wait_ms;
        given.dispatch = options.dispatch;
        detail::check(simba_store_open(url, &given, &handle, &why), why);
        owned_.take(handle);
    }

    static result<store> try_open(const char *url = nullptr,
                                  store_options options = {}) noexcept
    {
        return detail::make<store>(url, std::move(options));
    }

    /** Readable while callbacks wait for dispatch(). */
    int fd() const noexcept
    {
        return simba_store_fd(owned_.get());
    }

    /** Run the callbacks that wait; how many there were. */
    int dispatch()
    {
        simba_error why = {};
        int count = simba_store_dispatch(owned_.get(), &why);

        detail::check(count < 0 ? count : SIMBA_OK, why);
        return count;
    }

    /** For the C functions; still the store's. */
    simba_store *get() const noexcept
    {
        return owned_.get();
    }

  private:
    struct calls {
        log_function log;
        executor_function executor;
    };

    static void write_log(void *user,
                          simba_log_level level,
                          const char *component,
                          const char *message) noexcept
    {
        static_cast<calls *>(user)->log(level, component, message);
    }

    static bool execute(void *user,
                        void (*run)(void *),
                        void *argument) noexcept
    {
        return static_cast<calls *>(user)->executor(
            [run, argument] { run(argument); });
    }

    detail::owned<simba_store, simba_store_close, calls> owned_;
};

} // namespace simba

#endif
