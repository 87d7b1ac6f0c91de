/* Reading the command line: shared options, durations, exit codes. */
#define _GNU_SOURCE
#include "opt.h"
#include "exit.h"
#include "say.h"

#include <simba/duration.h>
#include <simba/store.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static void take_store(struct simba__cli *cli, char *url)
{
    cli->store = strdup(url); /* as long as the process lives */
    if (cli->store == NULL) {
        simba__say("out of memory"); /* never go on with another store */
        _exit(SIMBA__EXIT_FAULT);
    }
    simba_url_hide_secrets(url);
}

void simba__opt_show_url(const char *url, char *shown, size_t room)
{
    if (simba_store_describe(url, shown, room, NULL) != SIMBA_OK) {
        (void)snprintf(shown, room, "unknown");
    }
}

/* What stands behind the shims of a URL. */
static const char *inner_url(const char *url)
{
    static const char *const shims[] = {"fault:", "trace:", "stat:"};
    size_t i = 0;

    while (url != NULL && i < sizeof(shims) / sizeof(shims[0])) {
        size_t length = strlen(shims[i]);

        if (strncasecmp(url, shims[i], length) != 0) {
            i++;
            continue;
        }
        url = strchr(url + length, ':');
        url = url == NULL ? NULL : url + 1;
        i = 0;
    }
    return url;
}

bool simba__opt_is_private(const char *url)
{
    char shown[1024];
    const char *inner = NULL;

    if (simba_store_describe(url, shown, sizeof(shown), NULL) == SIMBA_OK) {
        inner = inner_url(shown);
    }
    return inner != NULL && strncasecmp(inner, "memory:", 7) == 0;
}

bool simba__opt_take_shared(struct simba__cli *cli, int choice, char *value)
{
    switch (choice) {
    case SIMBA__OPT_STORE:
        take_store(cli, value);
        return true;
    case SIMBA__OPT_JSON:
        cli->is_json = true;
        return true;
    case 'v':
        cli->verbosity = cli->verbosity < 1 ? 1 : 2;
        return true;
    case 'q':
        cli->verbosity = -1;
        return true;
    default:
        return false;
    }
}

bool simba__opt_duration(const char *option, const char *text, int64_t *ms)
{
    simba_error error;

    if (simba_duration_parse(text, ms, &error) != SIMBA_OK) {
        simba__say("%s: '%s' is %s", option, text, error.message);
        return false;
    }
    return true;
}

bool simba__opt_exit_code(const char *option, const char *text, int *code)
{
    char *end = NULL;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0 || value > 255) {
        simba__say("%s: '%s' is no exit code; write 0 to 255", option, text);
        return false;
    }
    *code = (int)value;
    return true;
}
