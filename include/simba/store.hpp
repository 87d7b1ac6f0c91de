/**
 * @file simba/store.hpp
 * A store in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_STORE_HPP
#define SIMBA_STORE_HPP

#include <simba/result.hpp>
#include <simba/store.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace simba
{

namespace detail
{

struct store_closer {
    void operator()(simba_store *store) const noexcept
    {
        simba_store_close(store);
    }
};

} // namespace detail

using log_function =
    std::function<void(simba_log_level, const char *, const char *)>;

struct store_options {
    log_function log;
    simba_log_level log_level = SIMBA_LOG_DEFAULT;
    int notifier_most = 0;
    simba_config_use config = SIMBA_CONFIG_WHEN_ASKED;
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
        : store(url.c_str(), std::move(options))
    {
    }

    explicit store(const char *url, store_options options = {})
        : log_(options.log
                   ? std::make_unique<log_function>(std::move(options.log))
                   : nullptr)
    {
        simba_store_options given = SIMBA_STORE_OPTIONS_INIT;
        simba_store *handle = nullptr;
        simba_error why = {};

        given.log = log_ ? &store::write_log : nullptr;
        given.log_user = log_.get();
        given.log_level = options.log_level;
        given.notifier_most = options.notifier_most;
        given.config = options.config;
        detail::check(simba_store_open(url, &given, &handle, &why), why);
        handle_.reset(handle);
    }

    static result<store> try_open(const char *url = nullptr,
                                  store_options options = {}) noexcept
    {
        return detail::make<store>(url, std::move(options));
    }

    /** For the C functions; still the store's. */
    simba_store *get() const noexcept
    {
        return handle_.get();
    }

  private:
    static void write_log(void *user,
                          simba_log_level level,
                          const char *component,
                          const char *message) noexcept
    {
        (*static_cast<log_function *>(user))(level, component, message);
    }

    std::unique_ptr<log_function> log_; /* outlives the handle */
    std::unique_ptr<simba_store, detail::store_closer> handle_;
};

} // namespace simba

#endif
