/* Ids of contenders: readable ones and random ones. */
#define _GNU_SOURCE
#include <simba/contender.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Host names end at 64 bytes on Linux. */
enum { HOST_MOST = 64 };

static void random_hex(char *to, size_t bytes)
{
    unsigned char random[16];

    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        abort(); /* ids that repeat would be worse than none */
    }
    for (size_t i = 0; i < bytes; i++) {
        snprintf(to + 2 * i, 3, "%02x", random[i]);
    }
}

/* An id must be valid by S14 whatever the host is called. */
static void clean_host(char *host)
{
    for (char *c = host; *c != '\0'; c++) {
        if (*c == '@' || *c < ' ' || *c > '~') {
            *c = '-';
        }
    }
    if (host[0] == '\0') {
        memcpy(host, "localhost", sizeof "localhost");
    }
}

/* Two containers may share pid and host name, so randomness follows. */
void simba_id_host(char *id)
{
    static _Atomic unsigned long counter;
    char host[HOST_MOST + 1] = "";
    char random[13];

    if (gethostname(host, sizeof host) != 0) {
        host[0] = '\0';
    }
    clean_host(host);
    random_hex(random, 6);
    snprintf(id, SIMBA_ID_MAX + 1, "%lu:%ld@%s-%s",
             atomic_fetch_add(&counter, 1), (long)getpid(), host, random);
}

void simba_id_uuid(char *id)
{
    random_hex(id, 16);
}
