#include "api/given.h"

#include <stdint.h>
#include <string.h>

int simba__given_take(const struct simba__given *given,
                      void *to,
                      size_t size,
                      simba_error *error)
{
    const uint32_t *known = given->from; /* the first member of them all */

    if (known == NULL || *known == 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "what is given must be set up by %s",
                               given->init);
    }
    memcpy(to, given->from, *known < size ? *known : size);
    return SIMBA_OK;
}
