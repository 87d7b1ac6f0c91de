/* One table per store of the parameters its URLs take: reading them, complaints
 * and help are made from it. */
#ifndef SIMBA_KIT_PARAMETERS_H
#define SIMBA_KIT_PARAMETERS_H

#include <simba/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum simba__parameter_type {
    SIMBA__PARAMETER_TEXT,   /* const char *; NULL: not given */
    SIMBA__PARAMETER_CHOICE, /* int: which of the words, from 0 */
    SIMBA__PARAMETER_FLAG,   /* bool: the first of the words is false */
    SIMBA__PARAMETER_INT,    /* int from 0 to `most` */
    SIMBA__PARAMETER_U64     /* uint64_t from 0 to `most` */
};

/** Words of a flag or choice: one has several forms. */
#define SIMBA__OFF_ON "off|no|0|false on|yes|1|true"

struct simba__parameter {
    const char *name;
    enum simba__parameter_type type;
    size_t offset;     /* in the settings */
    const char *words; /* of a choice or a flag: "a b|other_form c" */
    uint64_t most;     /* of a number */
    const char *help;  /* one line; NULL: an old name, not shown */
};

/* What the URLs of one store look like. */
struct simba__url_form {
    const char *store;   /* begins its messages; in capitals, its variables */
    const char *example; /* "redis://host:6379/0" */
    const struct simba__parameter *parameters; /* the last has no name */
    /* There are hosts; user, password and password_file are parameters too. */
    bool is_networked;
    int port; /* of a host that is given without one */
    /* Where the settings have their struct simba__tls_settings; 0: nowhere.
     * tls, verify, ca, cert and key are parameters then. */
    size_t tls_offset;
    char separator; /* between parameters; 0: & */
};

/**
 * Read a list "name=value&name=value" by a table.
 *
 * @param list      is torn apart, and texts of the settings point into it
 * @param settings  what the offsets are in
 * @return SIMBA_OK or SIMBA_EINVAL
 */
int simba__parameters_read(const struct simba__url_form *form,
                           char *list,
                           void *settings,
                           simba_error *error);

/** How its URLs look and what parameters there are, as a page of a manual says
 * it; to be freed. NULL: no memory. */
char *simba__parameters_help(const struct simba__url_form *form);

/* --- TLS ----------------------------------------------------------------- */

enum simba__tls_use {
    SIMBA__TLS_OFF,
    SIMBA__TLS_ON,
    SIMBA__TLS_UNVERIFIED, /* with whoever answers */
    SIMBA__TLS_UNSAID      /* before the URL was read */
};

struct simba__tls_settings {
    int use;    /* enum simba__tls_use */
    bool is_on; /* once it is settled */
    bool is_verified;
    const char *ca, *cert, *key; /* files, or NULL */
    const char *protocol;        /* of ALPN, the store's own; NULL: none */
};

#define SIMBA__TLS_DEFAULTS                                                    \
    ((struct simba__tls_settings){.use = SIMBA__TLS_UNSAID,                    \
                                  .is_verified = true})

/** Settle what was left open: `otherwise` says whether it is TLS. SIMBA_EINVAL
 * for what does not fit together; SIMBA_EMISCONFIG or SIMBA_EDENIED for files
 * that nobody should read. */
int simba__tls_settle(struct simba__tls_settings *tls,
                      const struct simba__url_form *form,
                      bool otherwise,
                      simba_error *error);

#endif
