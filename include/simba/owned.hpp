/**
 * @file simba/owned.hpp
 * What the handles of simba/simba.hpp are made of.
 */
#ifndef SIMBA_OWNED_HPP
#define SIMBA_OWNED_HPP

#include <memory>
#include <utility>

namespace simba
{

namespace detail
{

/* A handle and what its callbacks use, which must be there until the handle is
 * closed: also when another is moved over both. */
template <typename Handle, void (*Close)(Handle *), typename Calls> class owned
{
  public:
    explicit owned(Calls calls)
        : calls_(std::make_unique<Calls>(std::move(calls)))
    {
    }

    owned(owned &&) noexcept = default;

    owned &operator=(owned &&other) noexcept
    {
        handle_ = std::move(other.handle_); /* closes ours */
        calls_ = std::move(other.calls_);
        return *this;
    }

    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
    ~owned() = default;

    void take(Handle *handle) noexcept
    {
        handle_.reset(handle);
    }

    Handle *get() const noexcept
    {
        return handle_.get();
    }

    /* At one address for as long as the handle lives. */
    Calls *calls() const noexcept
    {
        return calls_.get();
    }

  private:
    struct closer {
        void operator()(Handle *handle) const noexcept
        {
            Close(handle);
        }
    };

    std::unique_ptr<Calls> calls_; /* outlives the handle */
    std::unique_ptr<Handle, closer> handle_;
};

} // namespace detail

} // namespace simba

#endif
