#include "guess.h"

#include <stddef.h>
#include <string.h>

/* What other programs that lock, elect or watch call it. */
const char *simba__guess_of_others(const char *word)
{
    static const char *const words[][2] = {
        {"acquire", "lock"}, {"check", "doctor"},   {"cron", "every"},
        {"elect", "lead"},   {"exec", "lock"},      {"flock", "lock"},
        {"get", "show"},     {"info", "show"},      {"leader", "lead"},
        {"ls", "list"},      {"monitor", "watch"},  {"release", "break"},
        {"run", "lock"},     {"schedule", "every"}, {"status", "list"},
        {"test", "tck"},     {"unlock", "break"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i][0]) == 0) {
            return words[i][1];
        }
    }
    return NULL;
}
