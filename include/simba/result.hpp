/**
 * @file simba/result.hpp
 * Failures in C++: simba::error, thrown, and simba::result, returned.
 */
#ifndef SIMBA_RESULT_HPP
#define SIMBA_RESULT_HPP

#include <simba/error.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <ratio>
#include <stdexcept>
#include <string>
#include <utility>

namespace simba
{

using milliseconds = std::chrono::milliseconds;

/** A failure: what the C functions put into a simba_error. */
class error : public std::runtime_error
{
  public:
    explicit error(const simba_error &from)
        : std::runtime_error(from.message), code_(from.code),
          native_(from.native)
    {
    }

    /** One of enum simba_status. */
    int code() const noexcept
    {
        return code_;
    }

    /** The store's own code, 0 when there is none; of SIMBA_ELOST why: an
     * enum simba_cause. */
    int native() const noexcept
    {
        return native_;
    }

    /** The short name of the code, such as "timed-out". */
    const char *name() const noexcept
    {
        return simba_status_name(code_);
    }

  private:
    int code_;
    int native_;
};

[[noreturn]] inline void raise(const simba_error &why)
{
#if defined(__cpp_exceptions)
    throw error(why);
#else
    (void)why;
    std::abort();
#endif
}

/** A value, or why there is none. */
template <typename T> class [[nodiscard]] result
{
  public:
    result(T value) noexcept : value_(std::move(value))
    {
    }

    result(const simba_error &why) noexcept : why_(why)
    {
    }

    bool has_value() const noexcept
    {
        return value_.has_value();
    }

    explicit operator bool() const noexcept
    {
        return has_value();
    }

    /** Throws simba::error when there is none. */
    T &value() &
    {
        check();
        return *value_;
    }

    T &&value() &&
    {
        check();
        return std::move(*value_);
    }

    T &operator*() noexcept
    {
        return *value_;
    }

    T *operator->() noexcept
    {
        return &*value_;
    }

    /** SIMBA_OK, or the code of the failure. */
    int code() const noexcept
    {
        return has_value() ? SIMBA_OK : why_.code;
    }

    /** Meaningful only when there is no value. */
    const simba_error &error() const noexcept
    {
        return why_;
    }

  private:
    void check() const
    {
        if (!has_value()) {
            raise(why_);
        }
    }

    std::optional<T> value_;
    simba_error why_ = {};
};

/** Nothing to return but success. */
struct done {
};

namespace detail
{

inline void check(int rc, const simba_error &why)
{
    if (rc != SIMBA_OK) {
        raise(why);
    }
}

/* What C gets of a text; one that C would take for a shorter one is refused, for
 * that would be another mutex. */
inline const char *text(const std::string &from)
{
    if (from.find('\0') != std::string::npos) {
        simba_error why = {};

        simba_error_set(&why, SIMBA_EINVAL, 0,
                        "a name, id or URL has a NUL in it");
        raise(why);
    }
    return from.c_str();
}

/* The same; empty: not given. */
inline const char *text_or_null(const std::string &from)
{
    return from.empty() ? nullptr : text(from);
}

inline result<done> outcome(int rc, const simba_error &why) noexcept
{
    return rc == SIMBA_OK ? result<done>(done{}) : result<done>(why);
}

/* What try_lock() and its kin make of it. */
template <typename T> bool got(const result<T> &answer)
{
    if (!answer && answer.code() != SIMBA_EBUSY &&
        answer.code() != SIMBA_ETIMEDOUT) {
        raise(answer.error());
    }
    return answer.has_value();
}

inline simba_error no_memory() noexcept
{
    simba_error why = {};

    simba_error_set(&why, SIMBA_ENOMEM, 0, "out of memory");
    return why;
}

/* Whole milliseconds, rounded up: who waits for 1 µs does not mean 0, and who
 * waits for hours::max() means for ever. */
template <typename Rep, typename Period>
std::int64_t in_ms(std::chrono::duration<Rep, Period> length) noexcept
{
    using years =
        std::chrono::duration<double, std::ratio<std::int64_t{31556952}>>;

    return years(length).count() > 1000
               ? milliseconds::max().count()
               : std::chrono::ceil<milliseconds>(length).count();
}

/* Makes by a constructor that throws, for those who want no exceptions. */
template <typename T, typename... Arguments>
result<T> make(Arguments &&...arguments) noexcept
{
#if defined(__cpp_exceptions)
    try {
        return T(std::forward<Arguments>(arguments)...);
    } catch (const error &e) {
        simba_error why = {};

        simba_error_set(&why, e.code(), e.native(), "%s", e.what());
        return why;
    } catch (...) {
        return no_memory();
    }
#else
    return T(std::forward<Arguments>(arguments)...);
#endif
}

} // namespace detail

} // namespace simba

#endif
