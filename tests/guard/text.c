/* Prints the text of a guard, for the shell. */
#include <simba/guard.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const dialects[] = {"postgres", "mysql", "sqlite"};
    static const char *const statements[] = {"create", "raise", "ask"};

    if (argc == 2 && strcmp(argv[1], "redis") == 0) {
        return puts(simba_guard_redis_script()) < 0;
    }
    for (int d = 0; argc == 3 && d < 3; d++) {
        for (int s = 0; s < 3; s++) {
            if (strcmp(argv[1], dialects[d]) == 0 &&
                strcmp(argv[2], statements[s]) == 0) {
                return puts(simba_guard_sql((enum simba_guard_dialect)d,
                                            (enum simba_guard_statement)s)) < 0;
            }
        }
    }
    return 1;
}
