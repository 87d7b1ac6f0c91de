/**
 * @file simba/metrics.hpp
 * Metrics in C++; part of simba/simba.hpp.
 */
#ifndef SIMBA_METRICS_HPP
#define SIMBA_METRICS_HPP

#include <simba/metrics.h>
#include <simba/store.hpp>

#include <cstdio>
#include <string>

namespace simba
{

/** A snapshot of what a store and its mutexes have seen. */
class metrics
{
  public:
    explicit metrics(const store &store)
    {
        simba_metrics *handle = nullptr;
        simba_error why = {};

        detail::check(simba_metrics_read(store.get(), &handle, &why), why);
        handle_.reset(handle);
    }

    static result<metrics> try_read(const store &store) noexcept
    {
        return detail::make<metrics>(store);
    }

    /** Replace a file by a snapshot, for a textfile collector. */
    static result<done> try_save(const store &store,
                                 const std::string &path) noexcept
    {
        simba_error why = {};

        return detail::outcome(
            simba_metrics_save(store.get(), path.c_str(), &why), why);
    }

    /** Of the store itself; lives as long as the snapshot, as what follows. */
    const simba_store_counts &of_store() const noexcept
    {
        return *simba_metrics_store(handle_.get());
    }

    /** How many mutexes there are in it. */
    std::size_t size() const noexcept
    {
        return simba_metrics_count(handle_.get());
    }

    const char *mutex(std::size_t index) const noexcept
    {
        return simba_metrics_mutex(handle_.get(), index);
    }

    const simba_counts &operator[](std::size_t index) const noexcept
    {
        return *simba_metrics_counts(handle_.get(), index);
    }

    /** By name; zeros for one that is not in it. */
    const simba_counts &of(const std::string &mutex) const noexcept
    {
        return *simba_metrics_of(handle_.get(), mutex.c_str());
    }

    /** In the text format of Prometheus. */
    std::string text() const
    {
        char *bytes = nullptr;
        std::size_t size = 0;
        FILE *out = open_memstream(&bytes, &size);
        bool is_whole = out != nullptr &&
                        simba_metrics_print(handle_.get(), out) == SIMBA_OK;

        is_whole = out != nullptr && std::fclose(out) == 0 && is_whole;
        std::unique_ptr<char, decltype(&std::free)> kept(bytes, &std::free);
        if (!is_whole) {
            raise(detail::no_memory());
        }
        return std::string(kept.get(), size);
    }

  private:
    struct deleter {
        void operator()(simba_metrics *metrics) const noexcept
        {
            simba_metrics_free(metrics);
        }
    };

    std::unique_ptr<simba_metrics, deleter> handle_;
};

} // namespace simba

#endif
