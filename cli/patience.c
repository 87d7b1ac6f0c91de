/* Says that something is being waited for; see patience.h. */
#define _GNU_SOURCE
#include "patience.h"
#include "say.h"
#include "words.h"

#include <time.h>
#include <unistd.h>

/* True: something is still waited for. */
static bool wait_a_second(struct simba__patience *patience)
{
    struct timespec until;
    bool is_over;
    int rc = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    (void)pthread_mutex_lock(&patience->lock);
    while (!patience->is_over && rc == 0) {
        rc = pthread_cond_timedwait(&patience->told, &patience->lock, &until);
    }
    is_over = patience->is_over;
    (void)pthread_mutex_unlock(&patience->lock);
    return !is_over;
}

static void *be_patient(void *user)
{
    struct simba__patience *patience = user;
    const struct simba__patience_plan *plan = &patience->plan;

    if (wait_a_second(patience) && plan->look != NULL) {
        plan->look(plan->user);
    }
    (void)pthread_mutex_lock(&patience->lock);
    if (!patience->is_over) {
        plan->say(plan->user);
    }
    (void)pthread_mutex_unlock(&patience->lock);
    return NULL;
}

/* Without a thread nobody is told, which does no harm. */
void simba__patience_start(struct simba__patience *patience,
                           const struct simba__patience_plan *plan)
{
    patience->plan = *plan;
    patience->is_over = false;
    (void)pthread_mutex_init(&patience->lock, NULL);
    (void)pthread_cond_init(&patience->told, NULL);
    patience->is_running =
        pthread_create(&patience->thread, NULL, be_patient, patience) == 0;
}

static void say_store(void *user)
{
    const struct simba__patience *patience = user;

    simba__say("waiting for %s", patience->shown);
}

void simba__patience_begin(struct simba__patience *patience,
                           const struct simba__cli *cli)
{
    *patience = (struct simba__patience){.is_running = false};
    if (cli == NULL || cli->verbosity < 0 ||
        !simba__words_is_live(STDERR_FILENO)) {
        return;
    }
    simba__opt_show_url(cli->store, patience->shown, sizeof(patience->shown));
    simba__patience_start(patience, &(struct simba__patience_plan){
                                        .say = say_store, .user = patience});
}

void simba__patience_over(struct simba__patience *patience)
{
    if (patience->is_running) {
        (void)pthread_mutex_lock(&patience->lock);
        patience->is_over = true;
        (void)pthread_cond_signal(&patience->told);
        (void)pthread_mutex_unlock(&patience->lock);
    }
}

void simba__patience_end(struct simba__patience *patience)
{
    if (!patience->is_running) {
        return;
    }
    simba__patience_over(patience);
    (void)pthread_join(patience->thread, NULL);
    (void)pthread_cond_destroy(&patience->told);
    (void)pthread_mutex_destroy(&patience->lock);
    patience->is_running = false;
}
