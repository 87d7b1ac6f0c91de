/* Secrets: in files, and in URLs that people get to see. */
#ifndef SIMBA_KIT_SECRET_H
#define SIMBA_KIT_SECRET_H

#include "util/file.h"

#include <simba/error.h>

#include <stdbool.h>

/**
 * Read a regular file of at most 64 KiB that nobody but its owner and its group
 * can write, and that belongs to us or to root, unless we are root.
 *
 * @return SIMBA_OK; SIMBA_EMISCONFIG, SIMBA_EDENIED or SIMBA_ENOMEM, with a
 *         message that begins with the path and nothing to free
 */
int simba__guarded_file_read(struct simba__file *file,
                             const char *path,
                             simba_error *error);

/**
 * The password in a file: its first line. The file is guarded as above, and
 * others cannot read it either.
 *
 * @param[out] secret  for simba__secret_free()
 */
int simba__secret_read(const char *path, char **secret, simba_error *error);

/** The same for a file of at most 4 MiB that a client library will read, which
 * would wait for a FIFO and read a device for ever. NULL, /dev/null and a file
 * that is not there are left to the library.
 *
 * @param store   begins the message
 * @param is_key  it holds a private key, which others cannot read either */
int simba__library_file_check(const char *store,
                              const char *path,
                              bool is_key,
                              simba_error *error);

/** Cut out of a URL, which need not be a good one, everything that may be a
 * secret: what stands before the @, and the values of parameters. The room that
 * gets free is wiped. */
void simba__url_hide(char *url);

/** Do user and password, as simba__url_hide() sees them, go on behind a slash
 * or a question mark? A parser would take their beginning for a host and show
 * it, so that it must not get to see such a URL.
 *
 * @param user  what follows "//" */
bool simba__url_is_torn(const char *user);

/** Is there a password in it, before the @ or in a parameter? */
bool simba__url_has_secret(const char *url);

#endif
