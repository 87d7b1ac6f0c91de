/* guarded DIRECTORY MS: a command for simba lock. */
#include "section.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    const char *mutex = getenv("SIMBA_MUTEX"), *token = getenv("SIMBA_TOKEN");

    if (argc != 3 || mutex == NULL || token == NULL) {
        return 64;
    }
    section_run(&(struct section){.directory = argv[1],
                                  .mutex = mutex,
                                  .token = strtoull(token, NULL, 10),
                                  .length_ms = atoi(argv[2])});
    return 0;
}
