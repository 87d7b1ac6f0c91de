/* What simba(1) answers to its caller: one table for every command. */
#ifndef SIMBA_CLI_EXIT_H
#define SIMBA_CLI_EXIT_H

enum {
    SIMBA__EXIT_USAGE = 64,
    SIMBA__EXIT_DATA = 65,     /* verify: a line is no event */
    SIMBA__EXIT_NO_INPUT = 66, /* verify: a file cannot be read */
    SIMBA__EXIT_UNAVAILABLE = 69,
    SIMBA__EXIT_FAULT = 70,
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

#endif
