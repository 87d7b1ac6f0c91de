/* URLs of stores, read by one parser:
 *
 *   scheme://[user[:password]@][host[:port][,host[:port]...]][/path]
 *            [?name=value[&name=value...]]
 *
 * A store's settings begin with a struct simba__url, and their texts point into
 * it. No message shows what could be a part of a password (S13). */
#ifndef SIMBA_KIT_URL_H
#define SIMBA_KIT_URL_H

#include "kit/parameters.h"

#include <simba/sys/connection.h>

#include <stdbool.h>
#include <stddef.h>

/* Texts are without escapes, but for the path. */
struct simba__url {
    const char *authority;        /* between // and /; NULL: there is no // */
    const char *user, *password;  /* NULL: none */
    const char *password_file;    /* where the password came from, or NULL */
    simba_connection_host *hosts; /* of a networked store */
    size_t host_count;
    char *path; /* "" or from its slash on */

    char *text; /* a copy of it, cut into pieces */
    size_t size;
    char *own_user, *own_password; /* not from the URL */
};

/**
 * Read a URL with its parameters, and what may hold the password besides: the
 * file that password_file names, and SIMBA_<STORE>_PASSWORD (and _USER), which
 * count where the URL has none, but not in a program with other rights than its
 * caller's.
 *
 * @param url   the beginning of the settings, which have their defaults already
 *              and get what the parameters say. Give it to simba__url_fini(),
 *              also after a failure
 * @param rest  what follows "scheme:"
 * @return SIMBA_OK, SIMBA_EINVAL, SIMBA_ENOMEM; for a password file
 *         SIMBA_EMISCONFIG or SIMBA_EDENIED
 */
int simba__url_read(struct simba__url *url,
                    const struct simba__url_form *form,
                    const char *rest,
                    simba_error *error);

/** The part of simba__url_read() for a URL that somebody else has read: user,
 * password and password_file are what it says, or NULL. */
int simba__url_credentials(struct simba__url *url,
                           const struct simba__url_form *form,
                           simba_error *error);

/** Wipe and free what it holds. */
void simba__url_fini(struct simba__url *url);

/** SIMBA_EINVAL, in words that end with an example. */
int simba__url_refuse(const struct simba__url_form *form,
                      const char *why,
                      simba_error *error);

/** The same for what simba__url_is_torn() is true of. */
int simba__url_refuse_torn(const struct simba__url_form *form,
                           simba_error *error);

/**
 * Take a parameter out of a URL that somebody else will read.
 *
 * @param text        is shortened
 * @param[out] value  without escapes, to be freed; NULL: there is none
 * @return SIMBA_OK, SIMBA_EINVAL for a broken escape, SIMBA_ENOMEM
 */
int simba__url_take(char *text, const char *name, char **value);

/** Are all of these hosts, with commas between, this very machine? A path or
 * nothing is a local socket. */
bool simba__url_is_local(const char *hosts);

/** A server for messages, "host:port": one line, cut when it does not fit.
 *
 * @param port  0: the host is the path of a socket */
void simba__url_show(const char *host, int port, char *shown, size_t room);

#endif
