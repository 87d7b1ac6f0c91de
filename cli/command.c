/* What commands have in common: their words, their store, their failures. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/output.h"

#include <simba/locker.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void simba__command_begin(struct simba__cli *cli)
{
    const char *json = secure_getenv("SIMBA_JSON");
    const char *verbosity = secure_getenv("SIMBA_VERBOSITY");
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

int simba__command_read(const struct simba__command *command,
                        struct simba__words *words)
{
    const char *name = command->name;
    int code;

    assert(command->help != NULL && words->count > 0);
    optind = 0; /* options may stand behind words: start over */
    code = simba__options_read(command, words, false);
    if (code == SIMBA__HELP) {
        (void)fputs(command->help, stdout);
        return simba__command_end();
    }
    if (code != SIMBA__GO_ON) {
        return code;
    }
    words->count -= optind;
    words->words += optind;
    if (words->count > 0 && command->most == 0) {
        simba__say("%s takes no such word; see 'simba %s --help'", name, name);
        return SIMBA__EXIT_USAGE;
    }
    if (words->count < command->least ||
        (command->most >= 0 && words->count > command->most)) {
        simba__say("%s %s %s; see 'simba %s --help'", name,
                   words->count < command->least ? "needs" : "takes only",
                   command->wanted, name);
        return SIMBA__EXIT_USAGE;
    }
    return command->check == NULL || command->check(command->user)
               ? SIMBA__GO_ON
               : SIMBA__EXIT_USAGE;
}

/* --- the store ----------------------------------------------------------- */

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

int simba__command_open(const struct simba__cli *cli,
                        const struct simba__opening *opening,
                        simba_store **store,
                        simba_error *error)
{
    simba_store_options options = SIMBA_STORE_OPTIONS_INIT;

    *store = NULL;
    if (simba__is_private(cli->store)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "memory: is seen by one process only; use a "
                               "store that others see, such as sqlite:path");
    }
    options.config = SIMBA_CONFIG_ALWAYS;
    options.look = opening->look;
    options.examine = opening->examine;
    if (cli->verbosity >= 0) {
        options.log = opening->log == NULL ? say_log : opening->log;
        options.log_user = opening->user;
        /* Whoever asks once and fails says why: a warning would say it twice.
         */
        options.log_level = cli->verbosity > 1     ? SIMBA_LOG_DEBUG
                            : cli->verbosity == 1  ? SIMBA_LOG_INFO
                            : opening->log == NULL ? SIMBA_LOG_ERROR
                                                   : SIMBA_LOG_DEFAULT;
    }
    return simba_store_open(cli->store, &options, store, error);
}

enum { GRANT_PAUSE_MS = 100, GRANT_NOTICE_MS = 5000 };

void simba__command_await_grants(const struct simba__cli *cli)
{
    char mutex[48];
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    simba_store *store = NULL;
    simba_error error;
    int64_t said_ms = INT64_MIN / 2;

    (void)snprintf(mutex, sizeof mutex, "simba-ready-%d", (int)getpid());
    options.mutex = mutex;
    if (simba_store_open(cli->store, NULL, &store, &error) != SIMBA_OK ||
        simba_locker_open(store, &options, &locker, &error) != SIMBA_OK) {
        simba_store_close(store);
        return;
    }
    /* A store that says our own mutex is another's is not waited for. */
    while (simba__interrupt() == 0 &&
           simba_locker_acquire(locker, 0, NULL, &error) == SIMBA_EBUSY &&
           strncmp(error.message, mutex, strlen(mutex)) != 0) {
        if (cli->verbosity >= 0 &&
            simba__clock_ms() - said_ms >= GRANT_NOTICE_MS) {
            said_ms = simba__clock_ms();
            simba__say("%s; waiting", error.message);
        }
        simba__clock_pause(GRANT_PAUSE_MS);
    }
    simba_locker_close(locker);
    simba_store_close(store);
}

void simba__command_say_absent(const struct simba__cli *cli,
                               const simba_error *error)
{
    if (cli->verbosity >= 0) {
        simba__say("%s; the first lock makes it, or 'simba init'",
                   error->message);
    }
}

int simba__command_serve(const struct simba__command *command,
                         const struct simba__words *words,
                         simba__command_fn *run)
{
    const struct simba__cli *cli = &words->cli;
    struct simba__opening opening = {
        .look = command->reach != SIMBA__REACH_MAKE,
        .examine = command->reach == SIMBA__REACH_EXAMINE};
    struct simba__wait_notice notice;
    simba_store *store = NULL;
    simba_error error = {0};
    int rc;

    simba__wait_notice_begin(&notice, cli);
    rc = simba__command_open(cli, &opening, &store, &error);
    if (rc == SIMBA_ENOTINIT && command->reach == SIMBA__REACH_LOOK) {
        /* It is as good as an empty one, and such a one stands in for it. */
        simba__command_say_absent(cli, &error);
        rc = simba_store_open("memory:", NULL, &store, &error);
    }
    rc = rc == SIMBA_OK ? run(command, words, store)
                        : simba__command_fail(cli, command->name, &error);
    simba_store_close(store);
    simba__wait_notice_end(&notice);
    return rc;
}

int simba__command_run(const struct simba__command *command,
                       struct simba__words *words,
                       simba__command_fn *run)
{
    int rc = simba__command_read(command, words);

    return rc == SIMBA__GO_ON ? simba__command_serve(command, words, run) : rc;
}

/* --- failures ------------------------------------------------------------ */

int simba__command_fail_with(const struct simba__cli *cli,
                             const char *command,
                             const simba_error *error,
                             int exit_code)
{
    struct simba__json json;

    assert(exit_code != 0);
    if (!simba__has_said(error->message)) {
        simba__say("%s", error->message);
    }
    if (cli->is_json) {
        simba__json_print(&json, stdout);
        simba__json_text(&json, "event", "failed");
        simba__json_text(&json, "command", command);
        simba__json_text(&json, "status", simba_status_name(error->code));
        simba__json_number(&json, "exit", exit_code);
        simba__json_text(&json, "message", error->message);
        simba__json_line(&json);
    }
    (void)fflush(stdout);
    return exit_code;
}

/* Stores tell it in the words of the system. */
bool simba__is_unknown_host(const char *message)
{
    return strstr(message, gai_strerror(EAI_NONAME)) != NULL ||
           strstr(message, gai_strerror(EAI_NODATA)) != NULL;
}

int simba__command_fail(const struct simba__cli *cli,
                        const char *command,
                        const simba_error *error)
{
    const char *advice = NULL;
    char shown[512];
    bool is_known =
        simba_store_describe(cli->store, shown, sizeof shown, NULL) == SIMBA_OK;
    int exit_code = simba__command_fail_with(
        cli, command, error, simba__exit_of_status(error->code));

    switch (is_known ? error->code : SIMBA_OK) {
    case SIMBA_EUNAVAIL:
        advice = simba__is_unknown_host(error->message)
                     ? "no such host is known here; is its name right?"
                     : "is it up, and is this the right --store?";
        break;
    case SIMBA_EDENIED:
        advice = "check user, password and rights there; see 'simba --help' "
                 "for where the store comes from";
        break;
    case SIMBA_ENOTINIT:
        advice = "'simba init' makes what is missing, 'simba init --print' "
                 "prints it for somebody who may";
        break;
    case SIMBA_EUNKNOWN:
        advice = "it may have taken effect: look with 'simba show'";
        break;
    default:
        return exit_code;
    }
    simba__say("the store is %s: %s", shown, advice);
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
    return SIMBA__EXIT_OUTPUT;
}

/* --- Ctrl-C -------------------------------------------------------------- */

static volatile sig_atomic_t noted;

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

/* How long whoever was told to end may take to leave nothing behind: a server
 * that does not answer must not keep it. What it owns lapses; its children die
 * with it. */
enum { LEAVE_S = 3 };

static void note(int signal)
{
    noted = signal;
    (void)alarm(LEAVE_S);
}

static void leave(int signal)
{
    static const char words[] =
        "simba: interrupted; what it owns is free when the lease ends\n";
    ssize_t ignored = write(STDERR_FILENO, words, sizeof words - 1);

    (void)signal;
    (void)ignored;
    _exit(SIMBA__EXIT_SIGNAL + noted);
}

void simba__interrupt_catch(void)
{
    struct sigaction late = {.sa_handler = leave};

    (void)sigaction(SIGALRM, &late, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        /* Calls that wait are to return; a second signal is not caught. */
        struct sigaction action = {.sa_handler = note,
                                   .sa_flags = (int)SA_RESETHAND};
        struct sigaction before;

        if (sigaction(signals[i], NULL, &before) == 0 &&
            before.sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
}

void simba__interrupt_ignore(void)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)signal(signals[i], SIG_IGN);
    }
}

int simba__interrupt(void)
{
    return noted;
}
