/* Messages of a store, put together like those of printf(). */
#ifndef SIMBA_KIT_LOG_H
#define SIMBA_KIT_LOG_H

#include <simba/log.h>

/* Where the messages of one store go, and its name in them. */
struct simba__log {
    simba_log_fn write;
    void *user;
    const char *store; /* static */
};

/** Longer messages are cut. */
void simba__log(const struct simba__log *log,
                enum simba_log_level level,
                const char *format,
                ...) __attribute__((format(printf, 3, 4)));

#endif
