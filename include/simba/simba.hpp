/**
 * @file simba/simba.hpp
 * Simba for C++17, header only: handles that close themselves, std::chrono,
 * exceptions or results, over the same C functions and the same ABI.
 *
 *     simba::store store;                       // as configured
 *     simba::locker report{store, "nightly-report"};
 *     if (std::unique_lock lock{report, 30s}) { // closed and released here
 *         work(report.token());
 *     }
 *
 * What throws, throws simba::error; whatever is called try_… is noexcept and
 * returns a simba::result. The exceptions of that rule are try_lock(),
 * try_lock_for() and try_lock_until(), whose names and results are those of the
 * standard's TimedLockable: false means that somebody else owns the mutex, and
 * a store that fails throws.
 *
 * Handles are moved, not copied; one that another is moved over is closed
 * first. A callback that throws ends the program, as an exception that leaves a
 * std::thread does; what a scheduler's work throws is logged, and its schedule
 * kept.
 */
#ifndef SIMBA_SIMBA_HPP
#define SIMBA_SIMBA_HPP

#include <simba.h>
#include <simba/guard.hpp>
#include <simba/locker.hpp>
#include <simba/metrics.hpp>
#include <simba/multi_locker.hpp>
#include <simba/result.hpp>
#include <simba/retrieval.hpp>
#include <simba/scheduler.hpp>
#include <simba/service.hpp>
#include <simba/store.hpp>

#endif
