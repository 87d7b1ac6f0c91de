/* The config file, read and checked as a whole; settings.h says what becomes of
 * it. docs/configuration.md is for its users. */
#ifndef SIMBA_API_CONF_H
#define SIMBA_API_CONF_H

#include "util/file.h"

#include <simba/error.h>

#include <stdbool.h>
#include <stddef.h>

enum simba__conf_key {
    SIMBA__CONF_STORE, /* in the head only */
    SIMBA__CONF_LOG_LEVEL,
    SIMBA__CONF_URL, /* in sections only */
    SIMBA__CONF_USER,
    SIMBA__CONF_PASSWORD,
    SIMBA__CONF_PASSWORD_FILE,
    SIMBA__CONF_TTL,
    SIMBA__CONF_TRANSITION,
    SIMBA__CONF_KEYS
};

/* What stands below [store NAME], or in the head. */
struct simba__conf_section {
    char *name; /* NULL: the head */
    int line;
    char *values[SIMBA__CONF_KEYS]; /* NULL: not given */
    int lines[SIMBA__CONF_KEYS];
    struct simba__conf_section *next;
};

struct simba__conf {
    char *path; /* NULL: there is no config file */
    struct simba__conf_section head;
    struct simba__conf_section *last; /* the one that is being read */
    int secret_line;                  /* where a password stands; 0: nowhere */
};

/** Find and read the file; without one everything stays empty. Free it also
 * after a failure. Messages name file, line and key, and no value (S13). */
int simba__conf_load(struct simba__conf *conf, simba_error *error);

/** Wipe and free. */
void simba__conf_free(struct simba__conf *conf);

/** The section of a name, or NULL. */
const struct simba__conf_section *simba__conf_find(
    const struct simba__conf *conf,
    const char *name);

/** Is this fit to be the name of a section? Then it can be shown as well. */
bool simba__conf_is_name(const char *text);

/** Fill an error that names the file, the line and the key. */
int simba__conf_fail(const struct simba__conf *conf,
                     int line,
                     const char *what,
                     simba_error *error);

/* --- conf_file.c --------------------------------------------------------- */

/** Where the config file is; *path NULL: there is none. To be freed. */
int simba__conf_path(char **path, simba_error *error);

/* A file read whole. */
struct simba__conf_text {
    char *bytes; /* closed by a NUL; to be wiped and freed */
    size_t size;
    bool is_open_to_others; /* those who are not in its group may read it */
};

/** Read a file of which others must not be able to write a word. */
int simba__conf_text_read(struct simba__conf_text *text,
                          const char *path,
                          simba_error *error);
void simba__conf_text_free(struct simba__conf_text *text);

/** $HOME, or what the system knows of this user; to be freed. */
char *simba__home_directory(void);

#endif
