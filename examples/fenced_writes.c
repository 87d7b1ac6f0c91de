/* A write that comes too late is refused by what it writes to, however late it
 * comes: docs/guards.md.
 *
 *     fenced_writes FILE TEXT      FILE.guard keeps the greatest token seen
 */
#include <simba.h>
#include <stdio.h>

static int write_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");

    if (out == NULL || fprintf(out, "%s\n", text) < 0)
        return -1;
    return fclose(out);
}

int main(int argc, char **argv)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
    simba_guard_file *guard = NULL;
    char path[4096];
    simba_error error;
    uint64_t token;
    int rc;

    if (argc != 3)
        return fprintf(stderr, "usage: fenced_writes FILE TEXT\n"), 64;
    snprintf(path, sizeof path, "%s.guard", argv[1]);
    options.mutex = "fenced";
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK ||
        simba_locker_acquire(locker, 30000, &token, &error) != SIMBA_OK ||
        simba_guard_file_open(path, &guard, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    /* the process may sleep here for an hour, and then: */
    rc = simba_guard_file_enter(guard, token, 5000, &error);
    if (rc == SIMBA_OK && write_file(argv[1], argv[2]) != 0)
        rc = simba_error_set(&error, SIMBA_EDENIED, 0, "cannot write");
    simba_guard_file_close(guard);
    if (rc != SIMBA_OK)
        return fprintf(stderr, "refused: %s\n", error.message), 1;
    printf("written with token %llu\n", (unsigned long long)token);
    return 0;
}
