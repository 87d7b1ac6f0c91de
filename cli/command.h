/* Reading the command line of a command whose options may stand anywhere, and
 * saying why it failed. */
#ifndef SIMBA_CLI_COMMAND_H
#define SIMBA_CLI_COMMAND_H

#include "opt.h"

#include <simba/error.h>
#include <simba/log.h>
#include <simba/store.h>

#include <getopt.h>

/** What a command does with a store that is not there yet. */
enum simba__reach {
    SIMBA__REACH_MAKE, /* makes it */
    SIMBA__REACH_LOOK, /* makes nothing, and sees an empty one */
    SIMBA__REACH_NEED  /* makes nothing, and fails */
};

/** What a command takes. */
struct simba__command {
    const char *name;
    enum simba__reach reach;
    const char *help;
    const struct option *options; /* with SIMBA__OPT_SHARED_LONG */
    const char *letters;          /* its own short options; "": none */
    /** Take an option of its own; false after telling what is wrong. NULL when
     * it has none. */
    bool (*take)(void *user, int choice, char *value);
    /** When all was read: is anything missing? False after telling it. May be
     * NULL. */
    bool (*check)(const void *user);
    void *user;
    int least, most;    /* how many words beside options; most -1: any */
    const char *wanted; /* what they are, such as "the NAME of a mutex" */
};

/** What there was. */
struct simba__words {
    struct simba__cli cli;
    int count;
    char **words; /* ended by NULL */
};

/** First of all in every program: standard descriptors that are closed stay so,
 * and the options that `simba` was given before a command that is a program of
 * its own (external.h). */
void simba__command_begin(struct simba__cli *cli);

enum { SIMBA__COMMAND_GO_ON = -1 };

/**
 * Read options and words, or show the help.
 *
 * @param[in,out] words  cli: what stood before the command; count, words: the
 *                       arguments, the command's name first; what is left of
 *                       them on return
 * @return SIMBA__COMMAND_GO_ON, else the exit code
 */
int simba__command_read(const struct simba__command *command,
                        struct simba__words *words);

/** Where the messages of the library go, for commands that run for long; NULL:
 * errors to stderr. */
struct simba__command_log {
    simba_log_fn log;
    void *user;
};

/** Open the store that is meant, with the times of the config file. One that
 * only this process can see is refused. */
int simba__command_open(const struct simba__cli *cli,
                        const struct simba__command_log *subscriber,
                        simba_store **store,
                        simba_error *error);

/** The same, but make nothing: SIMBA_ENOTINIT when it is not there yet. */
int simba__command_look(const struct simba__cli *cli,
                        const struct simba__command_log *subscriber,
                        simba_store **store,
                        simba_error *error);

/** Say that it is not there yet, which is no failure. */
void simba__command_say_absent(const struct simba__cli *cli,
                               const simba_error *error);

/**
 * Tell a failure on stderr, and what can be done; with --json an object as
 * well.
 *
 * @return the exit code
 */
int simba__command_fail(const struct simba__cli *cli,
                        const char *command,
                        const simba_error *error);

/** The same for what is no failure of the store: with this exit code, and
 * without advice. */
int simba__command_fail_with(const struct simba__cli *cli,
                             const char *command,
                             const simba_error *error,
                             int exit_code);

/** What a command does with its store; answers the exit code. */
typedef int simba__command_fn(const struct simba__command *command,
                              const struct simba__words *words,
                              simba_store *store);

/** The words are read: open the store, run, close it. */
int simba__command_serve(const struct simba__command *command,
                         const struct simba__words *words,
                         simba__command_fn *run);

/** A whole command: read the words, and serve. */
int simba__command_run(const struct simba__command *command,
                       struct simba__words *words,
                       simba__command_fn *run);

/** Write what was printed; false: it cannot be, and simba__command_end() tells
 * why. */
bool simba__command_flush(void);

/** What was printed has been written, or the exit code of a fault. */
int simba__command_end(void);

#endif
