/* A password in a file, so that it is in no URL. */
#ifndef SIMBA_REDIS_SECRET_H
#define SIMBA_REDIS_SECRET_H

#include <simba/error.h>

/**
 * The first line of a file that not everybody can read (S13).
 *
 * @param[out] secret  replaced and owned by the caller; left alone on failure
 * @return SIMBA_OK, SIMBA_EMISCONFIG or SIMBA_ENOMEM
 */
int simba__redis_secret_read(const char *path,
                             char **secret,
                             simba_error *error);

/** Overwrite and free it; NULL is a no-op. */
void simba__redis_secret_free(char *secret);

#endif
