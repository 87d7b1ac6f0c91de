/* The config file, read and checked as a whole; settings.h says what becomes of
 * it. docs/configuration.md is for its users. */
#ifndef SIMBA_API_CONFIG_FILE_H
#define SIMBA_API_CONFIG_FILE_H

#include <simba/error.h>
#include <simba/log.h>

#include <stdbool.h>

enum simba__config_key {
    SIMBA__CONFIG_STORE, /* in the head only */
    SIMBA__CONFIG_STORE_REQUIRED,
    SIMBA__CONFIG_LOG_LEVEL,
    SIMBA__CONFIG_URL, /* in sections only */
    SIMBA__CONFIG_USER,
    SIMBA__CONFIG_PASSWORD,
    SIMBA__CONFIG_PASSWORD_FILE,
    SIMBA__CONFIG_TTL,
    SIMBA__CONFIG_TRANSITION,
    SIMBA__CONFIG_KEYS
};

/** In place of a store: one must be named elsewhere. No section is called so.
 */
#define SIMBA__STORE_REQUIRED "required"

/* What stands below [store NAME], or in the head. */
struct simba__config_section {
    char *name; /* NULL: the head */
    int line;
    char *values[SIMBA__CONFIG_KEYS]; /* NULL: not given */
    int lines[SIMBA__CONFIG_KEYS];
    struct simba__config_section *next;
};

struct simba__config_file {
    char *path; /* NULL: there is none */
    struct simba__config_section head;
    struct simba__config_section *last; /* the one that is being read */
    bool is_of_user; /* found in a home: /etc/simba.conf was passed over */
    int secret_line; /* where a password stands; 0: nowhere */
};

/** Find and read the file; without one everything stays empty. Free it also
 * after a failure. Messages name file, line and key, and no value (S13). */
int simba__config_file_load(struct simba__config_file *config,
                            simba_error *error);

/** No store is named: may the default be used? SIMBA_EMISCONFIG if this file
 * says store_required, or leaves it open and /etc/simba.conf does. */
int simba__config_file_allow_default(const struct simba__config_file *config,
                                     simba_error *error);

/** Wipe and free. */
void simba__config_file_free(struct simba__config_file *config);

/** The section of a name, or NULL. */
const struct simba__config_section *simba__config_file_find(
    const struct simba__config_file *config,
    const char *name);

/** Is this fit to be the name of a section? Then it can be shown as well. */
bool simba__config_is_name(const char *text);

/** SIMBA_EMISCONFIG, with the file, the line and what is wrong. */
int simba__config_fail(const struct simba__config_file *config,
                       int line,
                       const char *what,
                       simba_error *error);

/** "$variable/rest" where the variable holds a path, else "home/or_else/rest",
 * home being $HOME or what the system knows of this user; to be freed. NULL: no
 * memory.
 *
 * @param variable  NULL: nothing of the environment counts, $HOME neither */
char *simba__path_of_user(const char *variable,
                          const char *or_else,
                          const char *rest);

/** Read the name of a level; false: there is none of this name. */
bool simba__log_level_of(const char *name, enum simba_log_level *level);

#endif
