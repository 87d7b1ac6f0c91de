/* A block of lines at the bottom of a terminal that is drawn anew in place,
 * with lines that stay above it. Where there is no terminal there is no block,
 * just the lines. */
#ifndef SIMBA_CLI_LIVE_H
#define SIMBA_CLI_LIVE_H

#include <simba/log.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct simba__live {
    pthread_mutex_t lock;
    bool is_live; /* stdout is a terminal */
    char *block;  /* what stands at the bottom, or NULL */
    int height;   /* how many lines of it stand there now */
};

/** @param may_draw  false: no block even on a terminal */
void simba__live_init(struct simba__live *live, bool may_draw);
void simba__live_fini(struct simba__live *live);

/** A line that stays, without its newline; false when it cannot be written.
 * Any thread. */
bool simba__live_line(struct simba__live *live, const char *line);

/** For simba_store_options: a message on stderr, above the block too. */
void simba__live_log(void *live,
                     enum simba_log_level level,
                     const char *component,
                     const char *message);

/** Replace the block; its text is freed by the live view. Any thread. */
void simba__live_draw(struct simba__live *live, char *block);

/** False when nobody will ever read what is printed, which a program that has
 * nothing to print would not notice; then SIGPIPE is raised as a write would.
 */
bool simba__live_is_read(void);

/** How many lines a block may have. */
size_t simba__live_room(void);

/** How many characters its lines may have; 0: unknown. */
size_t simba__live_width(void);

#endif
