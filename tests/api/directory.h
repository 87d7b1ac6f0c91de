/* A directory of the program's own, as long as its tests run: the two functions
 * are for the group. */
#ifndef SIMBA_TESTS_API_DIRECTORY_H
#define SIMBA_TESTS_API_DIRECTORY_H

#include <stdio.h>
#include <stdlib.h>

static char directory[] = "/tmp/simba-test-XXXXXX";

static inline int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static inline int remove_directory(void **state)
{
    char command[sizeof directory + 16];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

/* The path of what is called so there; good for the next seven calls. */
static inline const char *in_directory(const char *name)
{
    static char paths[8][256];
    static int turn;
    char *path = paths[turn++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

#endif
