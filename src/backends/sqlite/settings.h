/* What the URL of an SQLite store says. */
#ifndef SIMBA_SQLITE_SETTINGS_H
#define SIMBA_SQLITE_SETTINGS_H

#include "kit/url.h"

/* How much of a path fits into a message beside the words. */
enum { SIMBA__SQLITE_SHOWN = 160 };

struct simba__sqlite_settings {
    struct simba__url url;
    char *path;                          /* as given, then canonical */
    char shown[SIMBA__SQLITE_SHOWN + 1]; /* the path, for messages */
    bool is_trusted;  /* fs=trust: any file system will do, even a shared one */
    bool is_handover; /* our death frees what we own at once */
    bool is_full;     /* synchronous=full */
};

/**
 * Read what follows "sqlite:" in a URL.
 *
 * @param[out] settings  to be given to simba__sqlite_settings_fini(), also
 *                       after a failure
 * @return SIMBA_OK, SIMBA_EINVAL or SIMBA_ENOMEM
 */
int simba__sqlite_settings_init(struct simba__sqlite_settings *settings,
                                const char *rest,
                                simba_error *error);

void simba__sqlite_settings_fini(struct simba__sqlite_settings *settings);

/** Replace the path; takes it over. It came from malloc(). */
void simba__sqlite_settings_take_path(struct simba__sqlite_settings *settings,
                                      char *path);

#endif
