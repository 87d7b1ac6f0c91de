#define _GNU_SOURCE
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t noted;

static void note(int signal)
{
    noted = signal;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

void simba__interrupt_catch(void)
{
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
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
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_IGN);
    }
}

int simba__interrupt(void)
{
    return noted;
}
