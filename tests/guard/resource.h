/* A resource on a server, written under a guard; one file for each server. */
#ifndef SIMBA_TESTS_GUARD_RESOURCE_H
#define SIMBA_TESTS_GUARD_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

/* One way to write it; there may be several, each on a resource of its own. */
struct way {
    const char *name;
    int (*write_once)(uint64_t token, const char *text);
    void (*read)(char *text, size_t room);
};

/* Ends with one that has no name. */
extern const struct way ways[];

/** The store's URL, for those whose resource lives on the same server. */
const char *server_url(void);

#endif
