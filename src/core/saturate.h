/* Sums of times that stop at the ends of their range instead of overflowing. */
#ifndef SIMBA_CORE_SATURATE_H
#define SIMBA_CORE_SATURATE_H

#include <stdint.h>

static inline int64_t simba__add_saturating(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) {
        return INT64_MAX;
    }
    if (b < 0 && a < INT64_MIN - b) {
        return INT64_MIN;
    }
    return a + b;
}

static inline int64_t simba__subtract_saturating(int64_t a, int64_t b)
{
    if (b < 0 && a > INT64_MAX + b) {
        return INT64_MAX;
    }
    if (b > 0 && a < INT64_MIN + b) {
        return INT64_MIN;
    }
    return a - b;
}

#endif
