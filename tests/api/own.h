/* What this process has of the system: threads, descriptors. */
#ifndef SIMBA_TESTS_API_OWN_H
#define SIMBA_TESTS_API_OWN_H

#include "harness.h"

#include <dirent.h>

static inline int entries_of(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;

    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static inline int count_threads(void)
{
    return entries_of("/proc/self/task");
}

static inline int count_descriptors(void)
{
    return entries_of("/proc/self/fd");
}

#endif
