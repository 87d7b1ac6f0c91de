/**
 * @file simba/guard.hpp
 * Guards in C++; part of simba/simba.hpp. The texts of guard.h, for SQL and
 * Redis, are used as they are.
 */
#ifndef SIMBA_GUARD_HPP
#define SIMBA_GUARD_HPP

#include <simba/guard.h>
#include <simba/result.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace simba
{

/** A file that keeps the mark of what is written while it is entered. */
class guard_file
{
  public:
    /** Being inside, until the end of its scope. It must not outlive the
     * guard. */
    class [[nodiscard]] entry
    {
      public:
        explicit entry(simba_guard_file *guard) noexcept : guard_(guard)
        {
        }

      private:
        struct leaver {
            void operator()(simba_guard_file *guard) const noexcept
            {
                simba_guard_file_leave(guard);
            }
        };

        std::unique_ptr<simba_guard_file, leaver> guard_;
    };

    explicit guard_file(const std::string &path)
    {
        simba_guard_file *handle = nullptr;
        simba_error why = {};

        detail::check(simba_guard_file_open(detail::text(path), &handle, &why),
                      why);
        handle_.reset(handle);
    }

    static result<guard_file> try_open(const std::string &path) noexcept
    {
        return detail::make<guard_file>(path);
    }

    /** Wait until nobody else is inside; SIMBA_ELOST for a token that has been
     * succeeded: do not write. */
    result<entry> try_enter(std::uint64_t token) noexcept
    {
        return enter_within(token, -1);
    }

    /** Likewise, so long at most; zero tries once. */
    template <typename Rep, typename Period>
    result<entry> try_enter(std::uint64_t token,
                            std::chrono::duration<Rep, Period> timeout) noexcept
    {
        std::int64_t ms = detail::in_ms(timeout);

        return enter_within(token, ms > 0 ? ms : 0);
    }

    entry enter(std::uint64_t token)
    {
        return try_enter(token).value();
    }

    template <typename Rep, typename Period>
    entry enter(std::uint64_t token, std::chrono::duration<Rep, Period> timeout)
    {
        return try_enter(token, timeout).value();
    }

    simba_guard_file *get() const noexcept
    {
        return handle_.get();
    }

  private:
    struct closer {
        void operator()(simba_guard_file *guard) const noexcept
        {
            simba_guard_file_close(guard);
        }
    };

    result<entry> enter_within(std::uint64_t token,
                               std::int64_t timeout_ms) noexcept
    {
        simba_error why = {};

        if (simba_guard_file_enter(handle_.get(), token, timeout_ms, &why) !=
            SIMBA_OK) {
            return why;
        }
        return entry(handle_.get());
    }

    std::unique_ptr<simba_guard_file, closer> handle_;
};

/** A token as a mark is written. */
inline std::string guard_mark(std::uint64_t token)
{
    char text[SIMBA_GUARD_TEXT];

    simba_guard_format(token, text);
    return text;
}

/** May a token pass by a mark that was read from somewhere? */
inline result<done> guard_judge(std::string_view mark,
                                std::uint64_t token) noexcept
{
    simba_error why = {};

    return detail::outcome(
        simba_guard_judge(mark.data(), mark.size(), token, &why), why);
}

} // namespace simba

#endif
