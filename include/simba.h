/**
 * @file simba.h
 * Simba in C: all public headers at once. Each also stands alone.
 */
#ifndef SIMBA_H
#define SIMBA_H

#include <simba/admin.h>
#include <simba/contender.h>
#include <simba/duration.h>
#include <simba/error.h>
#include <simba/export.h>
#include <simba/guard.h>
#include <simba/locker.h>
#include <simba/log.h>
#include <simba/metrics.h>
#include <simba/multi_locker.h>
#include <simba/owner.h>
#include <simba/period.h>
#include <simba/report.h>
#include <simba/retrieval.h>
#include <simba/scheduler.h>
#include <simba/service.h>
#include <simba/state.h>
#include <simba/store.h>
#include <simba/times.h>
#include <simba/version.h>

#endif
