// Work every second where we lead, until the input ends.
#include <iostream>
#include <simba/simba.hpp>
#include <string>

int main()
try {
    using namespace std::chrono_literals;
    simba::store store;
    simba::scheduler sweep{store, "sweep", simba::fixed_rate(1s),
                           [](const simba::run &run) {
                               std::cout << "run " << run.number() << std::endl;
                           }};

    sweep.start();
    for (std::string line; std::getline(std::cin, line);) {
    }
    std::cout << "tenures: " << simba::metrics(store).of("sweep").acquires
              << '\n';
} catch (const simba::error &e) {
    std::cerr << e.what() << '\n';
    return 1;
}
