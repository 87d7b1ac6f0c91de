/* A block of lines that is drawn anew in place; see output.h. */
#define _GNU_SOURCE
#include "cli/output.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL_ROWS = 24, USUAL_COLUMNS = 80 };

/* Long lines are cut by the terminal, not wrapped: it must be known how many
 * there are when the cursor goes up again. */
#define NO_WRAP "\033[?7l"
#define WRAP    "\033[?7h"

void simba__live_init(struct simba__live *live, bool may_draw)
{
    *live = (struct simba__live){
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .is_live = may_draw && simba__is_live(STDOUT_FILENO),
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

void simba__live_size(size_t *lines, size_t *width)
{
    struct winsize size = {.ws_row = 0};

    *width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ? 0
             : size.ws_col == 0                           ? USUAL_COLUMNS
                                                          : size.ws_col;
    *lines = size.ws_row == 0  ? USUAL_ROWS - 1
             : size.ws_row > 2 ? size.ws_row - 1U
                               : 1;
}

/* Both under the lock. */
static void erase(struct simba__live *live)
{
    if (live->height > 0) {
        printf("\r\033[%dA\033[J", live->height);
        live->height = 0;
    }
}

static bool draw(struct simba__live *live)
{
    if (live->block != NULL) {
        printf(NO_WRAP "%s" WRAP, live->block);
        for (const char *at = live->block; *at != '\0'; at++) {
            live->height += *at == '\n';
        }
    }
    return simba__command_flush();
}

bool simba__live_line(struct simba__live *live, const char *line, size_t column)
{
    size_t lines, width;
    bool is_written;

    simba__live_size(&lines, &width);
    (void)pthread_mutex_lock(&live->lock);
    erase(live);
    printf("%.*s", (int)column, line);
    simba__print_words(stdout, line + column, column, column == 0 ? 0 : width);
    (void)putchar('\n');
    is_written = draw(live);
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
    (void)draw(live);
    (void)pthread_mutex_unlock(&live->lock);
}

void simba__live_draw(struct simba__live *live, char *block)
{
    (void)pthread_mutex_lock(&live->lock);
    if (live->is_live) {
        erase(live);
        free(live->block);
        live->block = block;
        (void)draw(live);
    } else {
        free(block);
    }
    (void)pthread_mutex_unlock(&live->lock);
}
