/* A block of lines that is drawn anew in place; see live.h. */
#define _GNU_SOURCE
#include "live.h"
#include "command.h"
#include "say.h"
#include "words.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_ROWS = 24 };

/* Long lines are cut by the terminal, not wrapped: it must be known how many
 * there are when the cursor goes up again. */
#define NO_WRAP "\033[?7l"
#define WRAP    "\033[?7h"

void simba__live_init(struct simba__live *live, bool may_draw)
{
    *live = (struct simba__live){
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .is_live = may_draw && simba__words_is_live(STDOUT_FILENO),
    };
}

void simba__live_fini(struct simba__live *live)
{
    free(live->block);
    live->block = NULL;
    (void)pthread_mutex_destroy(&live->lock);
}

bool simba__live_is_read(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};

    if (poll(&out, 1, 0) <= 0 || (out.revents & POLLERR) == 0) {
        return true;
    }
    (void)raise(SIGPIPE);
    return false;
}

size_t simba__live_room(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
        return USUAL_ROWS - 1;
    }
    return size.ws_row > 2 ? size.ws_row - 1U : 1;
}

size_t simba__live_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* --- under the lock ------------------------------------------------------ */

static void erase(struct simba__live *live)
{
    if (live->height > 0) {
        printf("\r\033[%dA\033[J", live->height);
        live->height = 0;
    }
}

static void draw(struct simba__live *live)
{
    if (live->block == NULL) {
        return;
    }
    printf(NO_WRAP "%s" WRAP, live->block);
    for (const char *at = live->block; *at != '\0'; at++) {
        live->height += *at == '\n';
    }
}

/* --- for everybody ------------------------------------------------------- */

bool simba__live_line(struct simba__live *live, const char *line)
{
    bool is_written;

    (void)pthread_mutex_lock(&live->lock);
    erase(live);
    (void)fputs(line, stdout);
    (void)fputc('\n', stdout);
    draw(live);
    is_written = simba__command_flush();
    (void)pthread_mutex_unlock(&live->lock);
    return is_written;
}

void simba__live_log(void *user,
                     enum simba_log_level level,
                     const char *component,
                     const char *message)
{
    struct simba__live *live = user;
    char who[SIMBA__SAY_WHO];

    (void)level;
    (void)pthread_mutex_lock(&live->lock);
    erase(live);
    (void)fflush(stdout);
    simba__say("%s%s", simba__say_who(component, message, who), message);
    draw(live);
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&live->lock);
}

void simba__live_draw(struct simba__live *live, char *block)
{
    (void)pthread_mutex_lock(&live->lock);
    if (live->is_live) {
        erase(live);
        free(live->block);
        live->block = block;
        draw(live);
        (void)fflush(stdout);
    } else {
        free(block);
    }
    (void)pthread_mutex_unlock(&live->lock);
}
