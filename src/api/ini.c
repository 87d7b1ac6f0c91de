/* Written by hand, because the library at hand for this cuts lines at 200 bytes
 * and does not say in which line a key stands. */
#include "api/ini.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char blanks[] = " \t\r\v\f";

static char *trim(char *text)
{
    size_t length;

    text += strspn(text, blanks);
    length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]) != NULL) {
        length--;
    }
    text[length] = '\0';
    return text;
}

/* A value may hold # and ;, so comments have lines of their own. */
static bool is_silent(const char *text)
{
    return *text == '\0' || *text == '#' || *text == ';';
}

static bool take_section(char *text, struct simba__ini_line *line)
{
    size_t length = strlen(text);

    if (length < 2 || text[length - 1] != ']') {
        return false;
    }
    text[length - 1] = '\0';
    line->key = NULL;
    line->value = trim(text + 1);
    return true;
}

static bool take_pair(char *text, struct simba__ini_line *line)
{
    char *equals = strchr(text, '=');

    if (equals == NULL) {
        return false;
    }
    *equals = '\0';
    line->key = trim(text);
    line->value = trim(equals + 1);
    return *line->key != '\0';
}

/* The line itself is not shown: it may hold a password. */
static int take_apart(char *text,
                      struct simba__ini_line *line,
                      simba_error *error)
{
    bool is_fine =
        *text == '[' ? take_section(text, line) : take_pair(text, line);

    if (!is_fine) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%d: neither [section] nor key = value",
                               line->number);
    }
    return SIMBA_OK;
}

int simba__ini_read(char *text,
                    int (*take)(void *user,
                                const struct simba__ini_line *line,
                                simba_error *error),
                    void *user,
                    simba_error *error)
{
    struct simba__ini_line line = {0, NULL, NULL};
    int rc = SIMBA_OK;
    char *next;

    for (; text != NULL && rc == SIMBA_OK; text = next) {
        next = strchr(text, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        line.number++;
        text = trim(text);
        if (!is_silent(text)) {
            rc = take_apart(text, &line, error);
            rc = rc == SIMBA_OK ? take(user, &line, error) : rc;
        }
    }
    return rc;
}
