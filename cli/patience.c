/* Says that a store is being waited for; see patience.h. */
#define _GNU_SOURCE
#include "patience.h"
#include "say.h"
#include "words.h"

#include <time.h>
#include <unistd.h>

static void *wait_a_second(void *user)
{
    struct simba__patience *patience = user;
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    (void)pthread_mutex_lock(&patience->lock);
    while (!patience->is_over && rc == 0) {
        rc = pthread_cond_timedwait(&patience->told, &patience->lock, &until);
    }
    if (!patience->is_over) {
        simba__say("waiting for %s", patience->shown);
    }
    (void)pthread_mutex_unlock(&patience->lock);
    return NULL;
}

/* Without a thread nobody is told, which does no harm. */
void simba__patience_begin(struct simba__patience *patience,
                           const struct simba__cli *cli)
{
    *patience = (struct simba__patience){.is_running = false};
    if (cli == NULL || cli->verbosity < 0 ||
        !simba__words_is_live(STDERR_FILENO)) {
        return;
    }
    simba__opt_show_url(cli->store, patience->shown, sizeof(patience->shown));
    (void)pthread_mutex_init(&patience->lock, NULL);
    (void)pthread_cond_init(&patience->told, NULL);
    patience->is_running =
        pthread_create(&patience->thread, NULL, wait_a_second, patience) == 0;
}

void simba__patience_end(struct simba__patience *patience)
{
    if (!patience->is_running) {
        return;
    }
    (void)pthread_mutex_lock(&patience->lock);
    patience->is_over = true;
    (void)pthread_cond_signal(&patience->told);
    (void)pthread_mutex_unlock(&patience->lock);
    (void)pthread_join(patience->thread, NULL);
    (void)pthread_cond_destroy(&patience->told);
    (void)pthread_mutex_destroy(&patience->lock);
}
