/* A config file, line by line: comments, [sections], key = value. */
#ifndef SIMBA_API_INI_H
#define SIMBA_API_INI_H

#include <simba/error.h>

/* One line of interest. All text is trimmed and borrowed. */
struct simba__ini_line {
    int number;
    const char *key;   /* NULL: the line opens a section */
    const char *value; /* of the key, or the name of the section */
};

/**
 * Read a text; it is taken apart in place.
 *
 * @param take  called for each line that says something; what it returns other
 *              than SIMBA_OK ends the reading
 * @return what `take` returned; SIMBA_EINVAL with only the line's number in
 *         the message for what is none of the three
 */
int simba__ini_read(char *text,
                    int (*take)(void *user,
                                const struct simba__ini_line *line,
                                simba_error *error),
                    void *user,
                    simba_error *error);

#endif
