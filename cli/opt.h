/* Reading the command line: what every command shares. */
#ifndef SIMBA_CLI_OPT_H
#define SIMBA_CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option; /* of getopt_long() */

/** Options that stand before the command, and after it too. */
struct simba__cli {
    const char *store; /* NULL: the library chooses */
    bool is_json;
    int verbosity; /* -1 quiet, 0, 1 verbose, 2 everything */
};

/** What the long forms of the shared options return from getopt_long(). */
enum { SIMBA__OPT_STORE = 1000, SIMBA__OPT_JSON, SIMBA__OPT_OWN };

/* clang-format off */
#define SIMBA__OPT_SHARED_LONG                                                 \
    {"store", required_argument, NULL, SIMBA__OPT_STORE},                      \
    {"json", no_argument, NULL, SIMBA__OPT_JSON},                              \
    {"verbose", no_argument, NULL, 'v'},                                       \
    {"quiet", no_argument, NULL, 'q'},                                         \
    {"help", no_argument, NULL, 'h'}
/* clang-format on */
#define SIMBA__OPT_SHARED_SHORT "vqh"

/**
 * Take a shared option.
 *
 * @param choice  what getopt_long() returned
 * @param value   optarg; of a URL a copy is kept, and the password in the
 *                original is wiped, so that ps(1) does not show it (S13)
 * @return false when it is none of them
 */
bool simba__opt_take_shared(struct simba__cli *cli, int choice, char *value);

/** The URL for people to read: without its secrets; the default store's when it
 * is NULL. */
void simba__opt_show_url(const char *url, char *shown, size_t room);

/** Is this store in our own memory, where it excludes nobody else? */
bool simba__opt_is_private(const char *url);

/**
 * Tell why getopt_long() returned '?' or ':', which option may be meant, and
 * where help is.
 *
 * @param command  "" before there is one
 * @param options  those that there are
 */
void simba__opt_complain(const char *command,
                         const struct option *options,
                         int choice,
                         char **argv);

/**
 * Read a duration: 250ms, 10s, 5m, 1h; decimals are fine, as in 1.5s.
 *
 * @param[out] ms  set on success
 * @return false after telling on stderr what is wrong with the option
 */
bool simba__opt_duration(const char *option, const char *text, int64_t *ms);

/** Read an exit code, 0 to 255; otherwise as simba__opt_duration(). */
bool simba__opt_exit_code(const char *option, const char *text, int *code);

#endif
