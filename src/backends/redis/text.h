/* Small things with texts: numbers, addresses. */
#ifndef SIMBA_REDIS_TEXT_H
#define SIMBA_REDIS_TEXT_H

#include "backends/redis/settings.h"

#include <stddef.h>

/** A number without sign or anything behind it, at most `most`; -1: none. */
int simba__redis_number(const char *text, int most);

/** Fill an address; false when the host is too long. */
bool simba__redis_put_address(struct simba__redis_address *address,
                              const char *host,
                              int port);

/** An address for messages: one line, cut when it does not fit. */
void simba__redis_show_address(const struct simba__redis_address *address,
                               char *shown,
                               size_t room);

#endif
