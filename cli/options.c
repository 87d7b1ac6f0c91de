/* The options of all commands, from their tables; what may have been meant by
 * one that is mistyped; and exit codes. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/output.h"
#include "util/file.h"
#include "util/guess.h"

#include <simba/duration.h>

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- exit codes ---------------------------------------------------------- */

int simba__exit_of_status(int status)
{
    switch (status) {
    case SIMBA_OK:
        return 0;
    case SIMBA_EBUSY:
    case SIMBA_ETIMEDOUT:
        return SIMBA__EXIT_NOT_ACQUIRED;
    case SIMBA_EINVAL:
    case SIMBA_EMISCONFIG:
    case SIMBA_ENOTINIT:
        return SIMBA__EXIT_CONFIG;
    case SIMBA_EUNAVAIL:
    case SIMBA_EUNKNOWN: /* a reply that never came is an unreachable store */
        return SIMBA__EXIT_UNAVAILABLE;
    case SIMBA_EDENIED:
        return SIMBA__EXIT_DENIED;
    case SIMBA_ELOST:
        return SIMBA__EXIT_LOST;
    case SIMBA_EIO:
        return SIMBA__EXIT_OUTPUT;
    default:
        return SIMBA__EXIT_FAULT;
    }
}

/* As env(1) and the shells do: not there at all, or there but no program. */
int simba__exit_of_exec(int error_number)
{
    return error_number == ENOENT ? SIMBA__EXIT_NOT_FOUND
                                  : SIMBA__EXIT_CANNOT_RUN;
}

int simba__exit_of_wait(int wait_status)
{
    assert(WIFEXITED(wait_status) || WIFSIGNALED(wait_status));
    return WIFSIGNALED(wait_status) ? SIMBA__EXIT_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

/* --- the store ----------------------------------------------------------- */

/* All that were given, ended by NULL; of most commands the last one counts. */
static const char *stores[SIMBA__STORES_MOST + 1];

const char *const *simba__options_stores(void)
{
    const char *before = secure_getenv(SIMBA__STORES_VARIABLE);
    char *rest = before == NULL || stores[0] != NULL ? NULL : strdup(before);

    for (size_t i = 0; rest != NULL && i < SIMBA__STORES_MOST; i++) {
        stores[i] = strsep(&rest, "\n");
    }
    return stores;
}

void simba__options_take_store(struct simba__cli *cli, char *url)
{
    size_t count = 0;

    cli->store = strdup(url); /* as long as the process lives */
    while (stores[count] != NULL && count + 1 < SIMBA__STORES_MOST) {
        count++;
    }
    stores[count] = cli->store;
    if (cli->store == NULL) {
        simba__say("out of memory"); /* never go on with another store */
        _exit(SIMBA__EXIT_FAULT);
    }
    simba_url_hide_secrets(url);
}

void simba__show_url(const char *url, char *shown, size_t room)
{
    if (simba_store_describe(url, shown, room, NULL) != SIMBA_OK) {
        (void)snprintf(shown, room, "unknown");
    }
}

bool simba__is_private(const char *url)
{
    static const char *const shims[] = {"fault:", "trace:", "stat:"};
    char shown[1024];
    const char *at = shown;
    size_t i = 0;

    if (simba_store_describe(url, shown, sizeof shown, NULL) != SIMBA_OK) {
        return false;
    }
    while (at != NULL && i < sizeof shims / sizeof shims[0]) {
        size_t length = strlen(shims[i]);

        if (strncasecmp(at, shims[i], length) != 0) {
            i++;
            continue;
        }
        at = strchr(at + length, ':'); /* what the shim wraps stands behind */
        at = at == NULL ? NULL : at + 1;
        i = 0;
    }
    return at != NULL && strncasecmp(at, "memory:", 7) == 0;
}

/* --- values -------------------------------------------------------------- */

bool simba__options_take(const struct simba__option *option,
                         const char *name,
                         char *value)
{
    uint64_t most = option->most == 0 ? UINT64_MAX : option->most;
    char all[128] = "", *end = NULL;
    int64_t *ms = option->to;
    uint64_t *number = option->to;
    int *chosen = option->to;
    simba_error error;
    long code;

    assert(option->to != NULL);
    if (option->is_given != NULL) {
        *option->is_given = true;
    }
    switch (option->kind) {
    case SIMBA__FLAG:
        *(bool *)option->to = true;
        return true;
    case SIMBA__TEXT:
        memcpy(option->to, &value, sizeof value);
        return true;
    case SIMBA__DURATION:
        if (simba_duration_parse(value, ms, &error) != SIMBA_OK) {
            simba__say("%s: '%s' is %s", name, value, error.message);
        } else if (*ms < option->least_ms) {
            simba__say("%s: '%s' is too short; at least %" PRId64 "ms", name,
                       value, option->least_ms);
        } else {
            return true;
        }
        return false;
    case SIMBA__NUMBER:
        if (simba__text_number(value, most, number) && *number != 0) {
            return true;
        }
        if (option->wrong != NULL) {
            simba__say("%s: '%s' is %s", name, value, option->wrong);
        } else if (option->most != 0) {
            simba__say("%s: '%s' is no number from 1 to %" PRIu64, name, value,
                       most);
        } else {
            simba__say("%s: '%s' is no number from 1 on", name, value);
        }
        return false;
    case SIMBA__WORD:
        for (int i = 0; option->words[i] != NULL; i++) {
            const char *comma = option->words[i + 1] == NULL ? " or " : ", ";
            size_t length = strlen(all);

            if (strcmp(value, option->words[i]) == 0) {
                *chosen = i;
                return true;
            }
            (void)snprintf(all + length, sizeof all - length, "%s%s",
                           i == 0 ? "" : comma, option->words[i]);
        }
        simba__say("%s: '%s' is none of its values: write %s", name, value,
                   all);
        return false;
    case SIMBA__CODE:
        code = strtol(value, &end, 10);
        if (end != value && *end == '\0' && code >= 0 && code <= 255) {
            *chosen = (int)code;
            return true;
        }
        simba__say("%s: '%s' is no exit code; write 0 to 255", name, value);
        return false;
    }
    return false;
}

/* --- what is wrong with an option ---------------------------------------- */

/* What getopt_long() returns for long forms: those of all commands, then those
 * of the table. */
enum { OPT_STORE = 1000, OPT_JSON, OPT_VERBOSE, OPT_QUIET, OPT_HELP, OPT_OWN };

enum { OPTIONS_MOST = 32, NAME_MOST = 32, ROOM = 256 };

/* Of a long option that is known optopt is its value, of an unknown one 0, else
 * it is a letter. Only names are told: what follows = may be a URL with a
 * password. */
static void complain(const char *command,
                     const struct option *options,
                     int choice,
                     char **argv)
{
    /* flock(1) has its own words for some. */
    static const char *const others[][2] = {
        {"nb", "no-wait"}, {"nonblock", "no-wait"}, {"timeout", "wait"}};
    const char *word = argv[optind - 1];
    const char *next = argv[optind] == NULL ? "" : argv[optind];
    bool is_long = optopt == 0 || optopt >= OPT_STORE;
    char name[NAME_MOST] = "", what[ROOM] = "is unknown";
    const char *near = NULL, *meant = name;
    int longer = 0;

    assert(optind > 0);
    if (is_long) {
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="),
                       word + 2);
    } else {
        /* Of a letter that has several bytes optopt is but the first; the
         * others are in the word, which getopt_long() has left only if it was
         * the last in it. */
        word = next[0] == '-' && strchr(next, optopt) != NULL ? next : word;
        word = strchr(word, optopt);
        name[0] = (char)optopt;
        for (size_t i = 1; word != NULL && i + 1 < NAME_MOST &&
                           ((unsigned char)word[i] & 0xc0) == 0x80;
             i++) {
            name[i] = word[i];
        }
    }
    if (choice == ':') {
        (void)snprintf(what, sizeof what, "needs a value");
    } else if (is_long && optopt != 0) {
        (void)snprintf(what, sizeof what, "takes no value");
    } else if (is_long) {
        char several[ROOM] = "is short for ";

        for (size_t i = 0; options[i].name != NULL; i++) {
            size_t length = strlen(several);

            if (strncmp(options[i].name, name, strlen(name)) == 0) {
                (void)snprintf(several + length, sizeof several - length,
                               "%s--%s", longer++ == 0 ? "" : " or ",
                               options[i].name);
            }
        }
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            meant = strcmp(name, others[i][0]) == 0 ? others[i][1] : meant;
        }
        for (size_t i = 0; longer <= 1 && near == NULL && options[i].name;
             i++) {
            near = simba__guess_is_near(meant, options[i].name)
                       ? options[i].name
                       : NULL;
        }
        if (longer > 1) {
            memcpy(what, several, sizeof what);
        }
    }
    if (near != NULL) {
        simba__say("there is no option --%s; did you mean --%s?", name, near);
        return;
    }
    simba__say("option %s%s %s; see 'simba%s%s --help'", is_long ? "--" : "-",
               name, what, *command == '\0' ? "" : " ", command);
}

/* --- variables ----------------------------------------------------------- */

void simba__options_check_variables(void)
{
    static const char prefix[] = "SIMBA_";
    /* Without it, which is so long that all would be near each other. */
    static const char *const known[] = {"STORE",
                                        "CONFIG",
                                        "MODULE_PATH",
                                        "JSON",
                                        "VERBOSITY",
                                        "MUTEX",
                                        "TOKEN",
                                        "HELD",
                                        "OWNER_ID",
                                        "REDIS_USER",
                                        "REDIS_PASSWORD",
                                        "MYSQL_USER",
                                        "MYSQL_PASSWORD",
                                        "POSTGRES_USER",
                                        "POSTGRES_PASSWORD",
                                        "ZOOKEEPER_USER",
                                        "ZOOKEEPER_PASSWORD"};
    size_t count = sizeof known / sizeof known[0];

    for (char **at = simba__is_set_user_id() ? NULL : environ;
         at != NULL && *at != NULL; at++) {
        char name[NAME_MOST];
        const char *near = NULL;

        if (strncasecmp(*at, prefix, strlen(prefix)) != 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        for (size_t i = 0; i < count; i++) {
            const char *rest = name + strlen(prefix);

            if (strcmp(rest, known[i]) == 0) {
                near = NULL;
                break;
            }
            near = simba__guess_is_near(rest, known[i]) ? known[i] : near;
        }
        if (near != NULL) {
            simba__say("there is no variable %s; did you mean %s%s?", name,
                       prefix, near);
        }
    }
}

/* --- reading ------------------------------------------------------------- */

int simba__options_read(const struct simba__command *command,
                        struct simba__words *words,
                        bool stops)
{
    struct option longs[OPTIONS_MOST] = {
        {"store", required_argument, NULL, OPT_STORE},
        {"json", no_argument, NULL, OPT_JSON},
        {"verbose", no_argument, NULL, OPT_VERBOSE},
        {"quiet", no_argument, NULL, OPT_QUIET},
        {"help", no_argument, NULL, OPT_HELP}};
    const struct simba__option *table = command->options;
    struct simba__cli *cli = &words->cli;
    char letters[2 * OPTIONS_MOST] = "";
    const char *mode = stops ? "+:vqh" : ":vqh";
    char name[NAME_MOST];
    size_t to = strlen(mode);
    int choice, count = 0;

    memcpy(letters, mode, to);
    for (; table != NULL && table[count].name != NULL; count++) {
        const struct simba__option *own = &table[count];
        bool takes_value = own->kind != SIMBA__FLAG;

        assert(OPT_OWN - OPT_STORE + count < OPTIONS_MOST - 1);
        longs[OPT_OWN - OPT_STORE + count] = (struct option){
            own->name, takes_value ? required_argument : no_argument, NULL,
            OPT_OWN + count};
        if (own->letter != '\0') {
            letters[to++] = own->letter;
            letters[to] = ':';
            to += takes_value ? 1 : 0;
            letters[to] = '\0';
        }
    }
    opterr = 0;
    while ((choice = getopt_long(words->count, words->words, letters, longs,
                                 NULL)) != -1) {
        int own = 0;

        while (own < count && choice != OPT_OWN + own &&
               choice != table[own].letter) {
            own++;
        }
        if (own < count) {
            (void)snprintf(
                name, sizeof name, choice < OPT_STORE ? "-%.1s" : "--%s",
                choice < OPT_STORE ? &table[own].letter : table[own].name);
            if (!simba__options_take(&table[own], name, optarg)) {
                return SIMBA__EXIT_USAGE;
            }
            continue;
        }
        switch (choice) {
        case 'h':
        case OPT_HELP:
            return SIMBA__HELP;
        case OPT_STORE:
            simba__options_take_store(cli, optarg);
            break;
        case OPT_JSON:
            cli->is_json = true;
            break;
        case 'v':
        case OPT_VERBOSE:
            cli->verbosity = cli->verbosity < 1 ? 1 : 2;
            break;
        case 'q':
        case OPT_QUIET:
            cli->verbosity = -1;
            break;
        default:
            complain(command->name, longs, choice, words->words);
            return SIMBA__EXIT_USAGE;
        }
    }
    return SIMBA__GO_ON;
}
