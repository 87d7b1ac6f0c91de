/* Many replicas of a service start at once, and each would bring the schema up
 * to date. One does; the others wait for it and find it done.
 *
 *     migration STATE-FILE     here the schema is a number in a file
 */
#include <simba.h>
#include <stdio.h>

enum { WANTED = 3 };

static int version_of(const char *path)
{
    FILE *in = fopen(path, "r");
    int version = 0;

    if (in != NULL && fscanf(in, "%d", &version) != 1)
        version = 0;
    if (in != NULL)
        fclose(in);
    return version;
}

static int migrate(const char *path, int version)
{
    FILE *out = fopen(path, "w");

    if (out == NULL || fprintf(out, "%d\n", version) < 0)
        return -1;
    printf("migrated to %d\n", version);
    return fclose(out);
}

int main(int argc, char **argv)
{
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_LOCKER_SCOPE simba_locker *locker = NULL;
    simba_error error;

    if (argc != 2)
        return fprintf(stderr, "usage: migration STATE-FILE\n"), 64;
    options.mutex = "migration";
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK ||
        simba_locker_acquire(locker, 60000, NULL, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    for (int next = version_of(argv[1]) + 1; next <= WANTED; next++) {
        /* between steps: a migration that lost the mutex must not go on */
        if (!simba_locker_is_owner(locker) || migrate(argv[1], next) != 0)
            return fprintf(stderr, "gave up before %d\n", next), 1;
    }
    puts("up to date");
    return 0;
}
