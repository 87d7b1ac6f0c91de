/* Reading the command line: shared options, durations, exit codes. */
#define _GNU_SOURCE
#include "opt.h"
#include "exit.h"
#include "say.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Nobody waits or holds longer than this; it keeps all sums of times far from
 * overflow. */
static const int64_t duration_most_ms = INT64_C(10) * 365 * 24 * 3600 * 1000;

static void wipe(char *from, const char *to)
{
    for (; from < to; from++) {
        *from = '*';
    }
}

/* Who and password stand before the last @ of the authority; a query may carry
 * a password as well. */
static void wipe_secrets(char *url)
{
    char *start = strstr(url, "://");
    char *query = strchr(url, '?');
    char *at;

    if (start != NULL) {
        start += strlen("://");
        at = memrchr(start, '@', strcspn(start, "/?"));
        if (at != NULL) {
            wipe(start, at);
        }
    }
    if (query != NULL) {
        wipe(query + 1, query + strlen(query));
    }
}

static void take_store(struct simba__cli *cli, char *url)
{
    cli->store = strdup(url); /* as long as the process lives */
    if (cli->store == NULL) {
        simba__say("out of memory"); /* never go on with another store */
        _exit(SIMBA__EXIT_FAULT);
    }
    wipe_secrets(url);
}

static const char *chosen(const char *url)
{
    return url != NULL ? url : getenv("SIMBA_STORE");
}

void simba__opt_show_url(const char *url, char *shown, size_t room)
{
    const char *given = chosen(url);

    (void)snprintf(shown, room, "%s",
                   given != NULL && *given != '\0' ? given : "default");
    wipe_secrets(shown);
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
    const char *given = inner_url(chosen(url));

    return given != NULL && strncasecmp(given, "memory:", 7) == 0;
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

/* The argument that getopt_long() choked on: optopt names a short option, the
 * argument before optind a long one. */
void simba__opt_complain(const char *command, int choice, char **argv)
{
    const char *what =
        choice == ':' ? "needs a value" : "is unknown or takes no value";
    const char *help = *command == '\0' ? "" : " ";
    const char *word = argv[optind - 1];

    if (optopt != 0 && optopt < SIMBA__OPT_STORE && word[0] == '-' &&
        word[1] != '-') {
        simba__say("option -%c %s; see 'simba%s%s --help'", optopt, what, help,
                   command);
        return;
    }
    /* Only the name: what follows = may be a URL with a password. */
    simba__say("option %.*s %s; see 'simba%s%s --help'",
               (int)strcspn(word, "="), word, what, help, command);
}

/* How many milliseconds a unit has, 0 for what is none. */
static double unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    size_t i;

    for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Digits with at most one point between them: strtod() would take "inf", hex
 * and exponents as well. */
static size_t number_length(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    size_t part;

    if (whole == 0 || text[whole] != '.') {
        return whole;
    }
    part = strspn(text + whole + 1, "0123456789");
    return part == 0 ? 0 : whole + 1 + part;
}

bool simba__opt_duration(const char *option, const char *text, int64_t *ms)
{
    size_t length = number_length(text);
    double unit = unit_ms(text + length);
    double value;

    if (strcmp(text, "0") == 0) {
        *ms = 0; /* the same in every unit */
        return true;
    }
    if (length == 0 || unit <= 0) {
        simba__say("%s: '%s' is no duration; write a number and a unit, "
                   "such as 250ms, 10s, 5m or 1h",
                   option, text);
        return false;
    }
    value = strtod(text, NULL) * unit;
    if (value > (double)duration_most_ms) {
        simba__say("%s: '%s' is more than ten years", option, text);
        return false;
    }
    *ms = (int64_t)(value + 0.5);
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
