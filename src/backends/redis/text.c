/* Small things with texts; see text.h. */
#include "backends/redis/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int simba__redis_number(const char *text, int most)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    return *text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
                   value > most
               ? -1
               : (int)value;
}

bool simba__redis_put_address(struct simba__redis_address *address,
                              const char *host,
                              int port)
{
    size_t length = strlen(host);

    if (length == 0 || length > SIMBA__REDIS_HOST_MAX) {
        return false;
    }
    memcpy(address->host, host, length + 1);
    address->port = port;
    return true;
}

void simba__redis_show_address(const struct simba__redis_address *address,
                               char *shown,
                               size_t room)
{
    const char *host = address->host;
    /* Of a long path the end tells more than the beginning. */
    size_t length = strlen(host);
    size_t most = room - 8;

    if (length > most) {
        host += length - most;
    }
    if (address->port == 0) {
        snprintf(shown, room, "%s", host);
    } else if (strchr(host, ':') != NULL) {
        snprintf(shown, room, "[%s]:%d", host, address->port);
    } else {
        snprintf(shown, room, "%s:%d", host, address->port);
    }
    for (char *c = shown; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}
