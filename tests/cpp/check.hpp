/* What the tests of simba.hpp share: a line for each test, and waiting. */
#ifndef SIMBA_TESTS_CPP_CHECK_HPP
#define SIMBA_TESTS_CPP_CHECK_HPP

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>

inline int count, failed;

inline void tell(bool is_fine, const char *name)
{
    count++;
    failed += is_fine ? 0 : 1;
    std::printf("%sok %d - %s\n", is_fine ? "" : "not ", count, name);
}

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            std::printf("# line %d: %s\n", __LINE__, #condition);              \
            return false;                                                      \
        }                                                                      \
    } while (0)

/* Waits for what other threads tell. */
class flag
{
  public:
    void set()
    {
        std::lock_guard guard{mutex_};
        is_set_ = true;
        changed_.notify_all();
    }

    bool wait()
    {
        std::unique_lock lock{mutex_};
        return changed_.wait_for(lock, std::chrono::seconds(20),
                                 [this] { return is_set_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_set_ = false;
};

/* The plan comes last; what main returns. */
inline int summary()
{
    std::printf("1..%d\n", count);
    return failed == 0 ? 0 : 1;
}

#endif
