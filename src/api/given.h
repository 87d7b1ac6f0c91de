/* What callers give to the functions that open something: structs that begin
 * with their size, by which those of an older header are known. */
#ifndef SIMBA_API_GIVEN_H
#define SIMBA_API_GIVEN_H

#include <simba/error.h>

#include <stddef.h>

struct simba__given {
    const void *from; /* may be NULL */
    const char *init; /* the name of the macro that sets it up */
};

/**
 * Take it over to `to`, which has `size` bytes and its defaults in place: they
 * stay where the caller's header ends. Returns SIMBA_OK, or SIMBA_EINVAL when
 * it was not set up.
 */
int simba__given_take(const struct simba__given *given,
                      void *to,
                      size_t size,
                      simba_error *error);

#endif
