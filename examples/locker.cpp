// One process at a time, in C++: the lock is the standard's own.
#include <simba/simba.hpp>
#include <iostream>
#include <mutex>

using namespace std::chrono_literals;

int main() try {
    simba::store store; // as configured
    simba::locker report{store, "nightly-report"};
    std::unique_lock lock{report, 30s};

    if (!lock)
        return std::cerr << "somebody else is at it\n", 75;
    std::cout << "mine, with token " << report.token() << '\n';
} catch (const simba::error &e) {
    return std::cerr << e.what() << '\n', 1;
}
