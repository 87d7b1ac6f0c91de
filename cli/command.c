/* What commands have in common; see command.h. */
#define _GNU_SOURCE
#include "command.h"
#include "exit.h"
#include "object.h"
#include "patience.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void simba__command_begin(struct simba__cli *cli)
{
    const char *json = getenv("SIMBA_JSON");
    const char *verbosity = getenv("SIMBA_VERBOSITY");
    long level = verbosity == NULL ? 0 : strtol(verbosity, NULL, 10);

    /* A descriptor opened later must not become somebody's stderr. What was
     * closed stays closed for CMD, and reads and writes fail here as they
     * would. */
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        if (fcntl(i, F_GETFD) < 0) {
            (void)open("/", O_PATH | O_CLOEXEC);
        }
    }
    *cli =
        (struct simba__cli){.is_json = json != NULL && strcmp(json, "1") == 0,
                            .verbosity = level < -1  ? -1
                                         : level > 2 ? 2
                                                     : (int)level};
}

/* --- the command line ---------------------------------------------------- */

static bool is_count_right(const struct simba__command *command, int count)
{
    if (count >= command->least &&
        (command->most < 0 || count <= command->most)) {
        return true;
    }
    if (command->most == 0) {
        simba__say("%s takes no such word; see 'simba %s --help'",
                   command->name, command->name);
    } else {
        simba__say("%s %s %s; see 'simba %s --help'", command->name,
                   count < command->least ? "needs" : "takes only",
                   command->wanted, command->name);
    }
    return false;
}

static bool take(const struct simba__command *command,
                 struct simba__words *words,
                 int choice)
{
    if (choice == '?' || choice == ':') {
        simba__opt_complain(command->name, command->options, choice,
                            words->words);
        return false;
    }
    return simba__opt_take_shared(&words->cli, choice, optarg) ||
           (command->take != NULL &&
            command->take(command->user, choice, optarg));
}

int simba__command_read(const struct simba__command *command,
                        struct simba__words *words)
{
    char letters[32];
    int choice;

    (void)snprintf(letters, sizeof(letters), ":%s" SIMBA__OPT_SHARED_SHORT,
                   command->letters);
    opterr = 0;
    optind = 0; /* options may stand behind words: start over */
    while ((choice = getopt_long(words->count, words->words, letters,
                                 command->options, NULL)) != -1) {
        if (choice == 'h') {
            (void)fputs(command->help, stdout);
            return simba__command_end();
        }
        if (!take(command, words, choice)) {
            return SIMBA__EXIT_USAGE;
        }
    }
    words->count -= optind;
    words->words += optind;
    if (!is_count_right(command, words->count) ||
        (command->check != NULL && !command->check(command->user))) {
        return SIMBA__EXIT_USAGE;
    }
    return SIMBA__COMMAND_GO_ON;
}

/* --- the store ----------------------------------------------------------- */

/* Whoever asks once and fails says why: a warning would say it twice. */
static enum simba_log_level level_of(int verbosity, bool is_long)
{
    if (verbosity == 0) {
        return is_long ? SIMBA_LOG_DEFAULT : SIMBA_LOG_ERROR;
    }
    return verbosity == 1 ? SIMBA_LOG_INFO : SIMBA_LOG_DEBUG;
}

static void say_log(void *user,
                    enum simba_log_level level,
                    const char *component,
                    const char *message)
{
    char who[SIMBA__SAY_WHO];

    (void)user;
    (void)level;
    simba__say("%s%s", simba__say_who(component, message, who), message);
}

static simba_store_options options_of(
    const struct simba__cli *cli,
    const struct simba__command_log *subscriber)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    options.config = SIMBA_CONFIG_ALWAYS;
    if (cli->verbosity >= 0) {
        options.log = subscriber == NULL ? say_log : subscriber->log;
        options.log_user = subscriber == NULL ? NULL : subscriber->user;
        options.log_level = level_of(cli->verbosity, subscriber != NULL);
    }
    return options;
}

static int open_by(const simba_store_options *options,
                   const struct simba__cli *cli,
                   simba_store **store,
                   simba_error *error)
{
    *store = NULL;
    if (simba__opt_is_private(cli->store)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "memory: is seen by one process only; use a "
                               "store that others see, such as sqlite:path");
    }
    return simba_store_open(cli->store, options, store, error);
}

int simba__command_open(const struct simba__cli *cli,
                        const struct simba__command_log *subscriber,
                        simba_store **store,
                        simba_error *error)
{
    simba_store_options options = options_of(cli, subscriber);

    return open_by(&options, cli, store, error);
}

int simba__command_look(const struct simba__cli *cli,
                        const struct simba__command_log *subscriber,
                        simba_store **store,
                        simba_error *error)
{
    simba_store_options options = options_of(cli, subscriber);

    options.look = true;
    return open_by(&options, cli, store, error);
}

void simba__command_say_absent(const struct simba__cli *cli,
                               const simba_error *error)
{
    if (cli->verbosity >= 0) {
        simba__say("%s; the first lock makes it, or 'simba init'",
                   error->message);
    }
}

/* As the command wants it. One that is not there yet is as good as an empty
 * one, and such a one stands in for it. */
static int open_for(const struct simba__command *command,
                    const struct simba__cli *cli,
                    simba_store **store,
                    simba_error *error)
{
    int rc = (command->reach == SIMBA__REACH_MAKE
                  ? simba__command_open
                  : simba__command_look)(cli, NULL, store, error);

    if (rc == SIMBA_ENOTINIT && command->reach == SIMBA__REACH_LOOK) {
        simba__command_say_absent(cli, error);
        rc = simba_store_open("memory:", NULL, store, error);
    }
    return rc;
}

/* --- failures ------------------------------------------------------------ */

/* Nothing is a fault of ours that the library calls by another name, and an
 * answer that never came is an unreachable store. */
static int exit_code_of(int status)
{
    return status == SIMBA_EUNKNOWN ? SIMBA__EXIT_UNAVAILABLE
                                    : simba__exit_of_status(status);
}

static const char *advice_for(int status)
{
    switch (status) {
    case SIMBA_EUNAVAIL:
        return "is it up, and is this the right --store?";
    case SIMBA_EDENIED:
        return "check user, password and rights there; see 'simba --help' for "
               "where the store comes from";
    case SIMBA_ENOTINIT:
        return "'simba init' makes what is missing, 'simba init --print' "
               "prints it for somebody who may";
    case SIMBA_EUNKNOWN:
        return "it may have taken effect: look with 'simba show'";
    default:
        return NULL;
    }
}

static void print_failure(const char *command,
                          const simba_error *error,
                          int exit_code)
{
    struct simba__object object;

    simba__object_begin(&object, stdout);
    simba__object_text(&object, "event", "failed");
    simba__object_text(&object, "command", command);
    simba__object_text(&object, "status", simba_status_name(error->code));
    simba__object_number(&object, "exit", exit_code);
    simba__object_text(&object, "message", error->message);
    simba__object_end(&object);
}

int simba__command_fail_with(const struct simba__cli *cli,
                             const char *command,
                             const simba_error *error,
                             int exit_code)
{
    if (!simba__has_said(error->message)) {
        simba__say("%s", error->message);
    }
    if (cli->is_json) {
        print_failure(command, error, exit_code);
    }
    (void)fflush(stdout);
    return exit_code;
}

int simba__command_fail(const struct simba__cli *cli,
                        const char *command,
                        const simba_error *error)
{
    int exit_code = simba__command_fail_with(cli, command, error,
                                             exit_code_of(error->code));
    const char *advice = advice_for(error->code);
    char shown[512];

    if (advice != NULL) {
        simba__opt_show_url(cli->store, shown, sizeof(shown));
        simba__say("the store is %s: %s", shown, advice);
    }
    return exit_code;
}

/* Why what was printed could not be written; 0: not known. */
static int write_errno;

bool simba__command_flush(void)
{
    if (fflush(stdout) == 0) {
        return true;
    }
    write_errno = errno;
    return false;
}

/* An earlier failure counts, too: what it was about is lost. */
int simba__command_end(void)
{
    if (simba__command_flush() && ferror(stdout) == 0) {
        return 0;
    }
    simba__say("cannot write%s%s", write_errno == 0 ? "" : ": ",
               write_errno == 0 ? "" : strerror(write_errno));
    return SIMBA__EXIT_FAULT;
}

int simba__command_serve(const struct simba__command *command,
                         const struct simba__words *words,
                         simba__command_fn *run)
{
    struct simba__patience patience;
    simba_store *store = NULL;
    simba_error error = {0};
    int rc;

    simba__patience_begin(&patience, &words->cli);
    if (open_for(command, &words->cli, &store, &error) == SIMBA_OK) {
        rc = run(command, words, store);
    } else {
        rc = simba__command_fail(&words->cli, command->name, &error);
    }
    simba_store_close(store);
    simba__patience_end(&patience);
    return rc;
}

int simba__command_run(const struct simba__command *command,
                       struct simba__words *words,
                       simba__command_fn *run)
{
    int rc = simba__command_read(command, words);

    return rc == SIMBA__COMMAND_GO_ON
               ? simba__command_serve(command, words, run)
               : rc;
}
