/**
 * @file simba/version.h
 * The version of these headers. Before 1.0 a minor version may break callers,
 * a patch version never does.
 */
#ifndef SIMBA_VERSION_H
#define SIMBA_VERSION_H

#define SIMBA_VERSION_MAJOR  0
#define SIMBA_VERSION_MINOR  1
#define SIMBA_VERSION_PATCH  0
#define SIMBA_VERSION_STRING "0.1.0"

/** For comparison in #if: 0.1.0 is 100, 1.2.3 is 10203. */
#define SIMBA_VERSION_NUMBER                                                   \
    (SIMBA_VERSION_MAJOR * 10000 + SIMBA_VERSION_MINOR * 100 +                 \
     SIMBA_VERSION_PATCH)

#endif
