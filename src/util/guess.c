/* How far a word is from a name. */
#include "util/guess.h"

#include <stddef.h>
#include <string.h>

enum {
    LONGEST = 18, /* no name is longer */
    LONG = 5      /* a name in which two things may be wrong */
};

static size_t least(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* How many steps lie between both: at[i][j] from the first i letters of the
 * word to the first j of the name. */
static size_t distance(const char *word, const char *name)
{
    size_t rows = strlen(word), columns = strlen(name);
    size_t at[LONGEST + 1][LONGEST + 1] = {{0}};

    for (size_t i = 0; i <= rows; i++) {
        at[i][0] = i;
    }
    for (size_t j = 1; j <= columns; j++) {
        at[0][j] = j;
        for (size_t i = 1; i <= rows; i++) {
            at[i][j] = at[i - 1][j - 1] + (word[i - 1] != name[j - 1]);
            at[i][j] = least(at[i][j], at[i - 1][j] + 1);
            at[i][j] = least(at[i][j], at[i][j - 1] + 1);
            if (i > 1 && j > 1 && word[i - 1] == name[j - 2] &&
                word[i - 2] == name[j - 1]) {
                at[i][j] = least(at[i][j], at[i - 2][j - 2] + 1);
            }
        }
    }
    return at[rows][columns];
}

bool simba__guess_is_near(const char *word, const char *name)
{
    size_t length = strlen(word);

    if (length < 2 || length > LONGEST || strlen(name) > LONGEST) {
        return false;
    }
    return strncmp(word, name, length) == 0 ||
           distance(word, name) <= (strlen(name) < LONG ? 1 : 2);
}
