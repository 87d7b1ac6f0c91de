/* What all commands share: exit codes, options and words, how a store is opened
 * and a failure is told; and the commands themselves. */
#ifndef SIMBA_CLI_CLI_H
#define SIMBA_CLI_CLI_H

#include <simba/error.h>
#include <simba/log.h>
#include <simba/store.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- exit codes: one table for every command ----------------------------- */

enum {
    SIMBA__EXIT_USAGE = 64,
    SIMBA__EXIT_DATA = 65,     /* verify: a line is no event */
    SIMBA__EXIT_NO_INPUT = 66, /* verify: a file cannot be read */
    SIMBA__EXIT_UNAVAILABLE = 69,
    SIMBA__EXIT_FAULT = 70,
    SIMBA__EXIT_OUTPUT = 74, /* it could not be written */
    SIMBA__EXIT_NOT_ACQUIRED = 75,
    SIMBA__EXIT_LOST = 76,
    SIMBA__EXIT_DENIED = 77,
    SIMBA__EXIT_CONFIG = 78,
    SIMBA__EXIT_CANNOT_RUN = 126,
    SIMBA__EXIT_NOT_FOUND = 127,
    SIMBA__EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/** The exit code of a failed call of the library. */
int simba__exit_of_status(int status);

/** The exit code of an execvp() that failed with this errno. */
int simba__exit_of_exec(int error_number);

/** The exit code that passes on what waitpid() said about a process. */
int simba__exit_of_wait(int wait_status);

/* --- options: options.c -------------------------------------------------- */

/** Options that stand before the command, and after it too. */
struct simba__cli {
    const char *store; /* NULL: the library chooses */
    bool is_json;
    int verbosity; /* -1 quiet, 0, 1 verbose, 2 everything */
};

/** What an option takes, and where it goes. */
enum simba__option_kind {
    SIMBA__FLAG,     /* nothing; a bool */
    SIMBA__TEXT,     /* anything; a char pointer */
    SIMBA__DURATION, /* 250ms, 10s, 5m, 1h, 1.5s; an int64_t of milliseconds */
    SIMBA__NUMBER,   /* from 1 on; a uint64_t */
    SIMBA__CODE,     /* 0 to 255; an int */
    SIMBA__WORD      /* one of `words`; an int, which one */
};

struct simba__option {
    const char *name;
    char letter; /* 0: it has none */
    enum simba__option_kind kind;
    void *to;
    bool *is_given;           /* may be NULL */
    int64_t least_ms;         /* DURATION */
    uint64_t most;            /* NUMBER; 0: any */
    const char *wrong;        /* NUMBER: what a bad value is; may be NULL */
    const char *const *words; /* WORD; ended by NULL */
};

/** What a command does with a store that is not there yet. */
enum simba__reach {
    SIMBA__REACH_MAKE,   /* makes it */
    SIMBA__REACH_LOOK,   /* makes nothing, and sees an empty one */
    SIMBA__REACH_EXAMINE /* makes nothing, and says what would be made */
};

/** What a command takes. */
struct simba__command {
    const char *name; /* "": simba itself */
    const char *help;
    enum simba__reach reach;
    const struct simba__option *options; /* ended by a NULL name; or NULL */
    /** When all was read: is anything missing? False after telling it. May be
     * NULL. */
    bool (*check)(const void *user);
    const void *user;
    int least, most;    /* how many words beside options; most -1: any */
    const char *wanted; /* what they are, such as "the NAME of a mutex" */
};

enum { SIMBA__GO_ON = -1, SIMBA__HELP = -2 };

/** What there was. */
struct simba__words {
    struct simba__cli cli;
    int count;
    char **words; /* ended by NULL */
};

/**
 * Read options, the shared ones too. A URL is copied, and the password in the
 * word is wiped, so that ps(1) does not show it (S13).
 *
 * @param words  the cli is filled; optind counts in it
 * @param stops  at the first word that is no option; else all are read and the
 *               words moved behind them
 * @return SIMBA__GO_ON, with optind at the next word; SIMBA__HELP as soon as it
 *         is asked for; else the exit code, after telling what is wrong
 */
int simba__options_read(const struct simba__command *command,
                        struct simba__words *words,
                        bool stops);

/** Tell of variables that are mistyped ones of ours: what was to be configured
 * is not. Nothing of them is shown but the name. */
void simba__options_check_variables(void);

/** Take a URL as --store does. */
void simba__options_take_store(struct simba__cli *cli, char *url);

/** More than anybody looks at. */
enum { SIMBA__STORES_MOST = 32 };

/** How external.c passes several on, parted by newlines. */
#define SIMBA__STORES_VARIABLE "SIMBA_STORES"

/** All that were taken, ended by NULL, for a command that wants several. Of one
 * that is a program of its own also those that stood before it. */
const char *const *simba__options_stores(void);

/** Read the value of an option, or of a word that `name` stands for; false
 * after telling what is wrong with it. */
bool simba__options_take(const struct simba__option *option,
                         const char *name,
                         char *value);

/** The URL for people to read: without its secrets; the default store's when it
 * is NULL. */
void simba__show_url(const char *url, char *shown, size_t room);

/** Is this store in our own memory, where it excludes nobody else? */
bool simba__is_private(const char *url);

/* --- commands: command.c ------------------------------------------------- */

/** First of all in every program: standard descriptors that are closed stay so,
 * and the options that `simba` was given before a command that is a program of
 * its own are taken (external.c). */
void simba__command_begin(struct simba__cli *cli);

/**
 * Read options and words, or show the help.
 *
 * @param[in,out] words  cli: what stood before the command; count, words: the
 *                       arguments, the command's name first; what is left of
 *                       them on return
 * @return SIMBA__GO_ON, else the exit code
 */
int simba__command_read(const struct simba__command *command,
                        struct simba__words *words);

/** How a store is opened by commands that run for long. */
struct simba__opening {
    bool look;        /* nothing is made: SIMBA_ENOTINIT when there is none */
    simba_log_fn log; /* where messages go; NULL: errors to stderr */
    void *user;
    bool examine; /* with look: open it all the same, for the doctor */
};

/** Open the store that is meant, with the times of the config file. One that
 * only this process can see is refused. */
int simba__command_open(const struct simba__cli *cli,
                        const struct simba__opening *opening,
                        simba_store **store,
                        simba_error *error);

/** Wait while the store grants nothing to anybody (SIMBA_EBUSY of a mutex that
 * nobody has), and say so every few seconds. Anything else is left to what
 * follows. Ends early at a signal that simba__interrupt() knows. */
void simba__command_await_grants(const struct simba__cli *cli);

/** Say that it is not there yet, which is no failure. */
void simba__command_say_absent(const struct simba__cli *cli,
                               const simba_error *error);

/** Does this message of a store tell of a host that nobody knows? */
bool simba__is_unknown_host(const char *message);

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

/** Note INT, TERM and HUP from now on, but for those that are ignored, so that
 * what is owned can be given back. A second one ends the process at once, and
 * if that takes longer than 3 s, it ends by itself. */
void simba__interrupt_catch(void);

/** Ignore them from now on. */
void simba__interrupt_ignore(void);

/** Which one came; 0: none. */
int simba__interrupt(void);

/* --- the commands -------------------------------------------------------- */

/* Each takes the options that stood before it, and its own arguments, its name
 * first; answers the exit code. `run` is lock, lead and every. */
int simba__cmd_run(struct simba__words *words);
int simba__cmd_list(struct simba__words *words);
int simba__cmd_show(struct simba__words *words);
int simba__cmd_held(struct simba__words *words);
int simba__cmd_watch(struct simba__words *words);
int simba__cmd_break(struct simba__words *words);
int simba__cmd_hand_over(struct simba__words *words);
int simba__cmd_doctor(struct simba__words *words);
int simba__cmd_init(struct simba__words *words);

/* Commands that are programs of their own: `simba NAME` runs simba-NAME.
 *
 * It is looked for in the libexec directory beside this program, then in $PATH.
 * A set-user-id process looks in no directory that others can write to, and
 * never in $PATH. What stood before NAME, and the store wherever it stands, go
 * by the environment, never by arguments, which everybody can read (S13). */

/** Those that are made with simba, ended by NULL. */
extern const char *const simba__external_ours[];

/** Become simba-NAME; NAME is argv[0]. Returns its exit code when it cannot be
 * run, after telling why; -1: there is no such program. */
int simba__external_run(const struct simba__cli *cli, int argc, char **argv);

/** Call `each` for every program that is found, until it answers true: for a
 * name that several directories have, only the first. */
void simba__external_list(bool (*each)(void *user,
                                       const char *name,
                                       const char *path),
                          void *user);

#endif
