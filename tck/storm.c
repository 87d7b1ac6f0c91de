/* storm: whatever the store does to what it is asked, nothing unsafe happens
 * (S1, S4, S9). Several mutexes, several contenders of each, started and
 * stopped at random. On a store that works this is a hard day; under the shim
 * `fault` it is what must hold with every seed. */
#include "kit.h"
#include "topics.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MUTEXES = 4, RIVALS = 3, STORM_MS = 700, TENURES_MOST = 4096 };

/* One mutex, and the token of every tenure of it that anybody was told of. */
struct prize {
    char name[80];
    pthread_mutex_t lock;
    uint64_t tokens[TENURES_MOST];
    int count;
};

struct rival {
    struct prize *prize;
    simba_service *service;
    bool is_started; /* its user's */
    _Atomic bool is_inside;
    const char *_Atomic offence;
    _Atomic uint64_t token;
};

struct storm {
    struct tck *t;
    struct prize prizes[MUTEXES];
    struct rival rivals[RIVALS][MUTEXES];
    _Atomic bool is_over;
};

/* One who starts and stops the contenders of one handle. */
struct fickle {
    struct storm *storm;
    struct rival *rivals;
    uint64_t chance;
};

static void note(struct prize *prize, const simba_owner *owner)
{
    pthread_mutex_lock(&prize->lock);
    if (prize->count < TENURES_MOST) {
        prize->tokens[prize->count++] = owner->token;
    }
    pthread_mutex_unlock(&prize->lock);
}

static void on_acquired(void *user, const simba_state *state)
{
    struct rival *r = user;

    if (atomic_exchange(&r->is_inside, true)) {
        atomic_store(&r->offence, "acquired was told twice in a row");
    }
    if (state->after.token <= atomic_exchange(&r->token, state->after.token)) {
        atomic_store(&r->offence, "a contender's token did not grow");
    }
    note(r->prize, &state->after);
}

static void on_released(void *user, const simba_state *state)
{
    struct rival *r = user;

    if (!atomic_exchange(&r->is_inside, false)) {
        atomic_store(&r->offence, "released was told without acquired");
    }
    if (state->before.token != atomic_load(&r->token)) {
        atomic_store(&r->offence, "released was told for another tenure");
    }
}

/* --- the weather --------------------------------------------------------- */

static void toggle(struct rival *r)
{
    int rc;

    if (r->is_started) {
        rc = simba_service_stop(r->service, NULL);
        if (rc != SIMBA_OK && rc != SIMBA_EUNKNOWN) {
            atomic_store(&r->offence, "stop was refused");
        }
        if (atomic_load(&r->is_inside)) {
            atomic_store(&r->offence, "still inside after stop");
        }
    } else if (simba_service_start(r->service, NULL) != SIMBA_OK) {
        atomic_store(&r->offence, "start was refused");
    }
    r->is_started = !r->is_started;
}

static void be_fickle(void *what)
{
    struct fickle *f = what;

    for (int i = 0; i < MUTEXES; i++) {
        toggle(&f->rivals[i]);
    }
    while (!atomic_load(&f->storm->is_over)) {
        uint64_t lot = tck_draw(&f->chance);
        struct rival *r = &f->rivals[lot % MUTEXES];

        if (!r->is_started || simba_service_is_owner(r->service) ||
            lot % 16 < 2) {
            toggle(r);
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(lot >> 44) % 4000000},
                  NULL);
    }
}

/* --- what is looked at --------------------------------------------------- */

/* One said that it owns before and after another did, in one tenure. */
static void expect_one_owner(struct storm *s, int m)
{
    for (int a = 0; a < RIVALS; a++) {
        simba_service *one = s->rivals[a][m].service;
        uint64_t token = simba_service_token(one);

        for (int b = 0; token != 0 && b < RIVALS; b++) {
            simba_service *other = s->rivals[b][m].service;

            if (b != a && simba_service_is_owner(other) &&
                simba_service_token(one) == token) {
                tck_fail(s->t, TCK_HERE, "two owned a mutex at once");
            }
        }
    }
}

static int by_token(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* No token twice. When each was acquired is no matter: handles know the store's
 * clock, if it tells one, by estimates of their own. */
static void expect_tokens(struct storm *s, struct prize *prize)
{
    qsort(prize->tokens, (size_t)prize->count, sizeof prize->tokens[0],
          by_token);
    for (int i = 1; i < prize->count; i++) {
        if (prize->tokens[i - 1] == prize->tokens[i]) {
            tck_fail(s->t, TCK_HERE, "token %" PRIu64 " was granted twice",
                     prize->tokens[i]);
        }
    }
}

static void close_rival(void *what)
{
    struct rival *r = what;

    simba_service_close(r->service);
}

static void make_rivals(struct storm *s, struct rival *rivals)
{
    simba_store *store = tck_store(s->t);

    tck_need_all(s->t);
    for (int m = 0; m < MUTEXES; m++) {
        struct rival *r = &rivals[m];
        simba_contender contender = SIMBA_CONTENDER_INIT;

        r->prize = &s->prizes[m];
        contender.mutex = r->prize->name;
        contender.times.ttl_ms = s->t->short_lease.ttl_ms;
        contender.times.transition_ms = s->t->short_lease.transition_ms;
        contender.on_acquired = on_acquired;
        contender.on_released = on_released;
        contender.user = r;
        EXPECT_STATUS(s->t,
                      simba_service_open(store, &contender, &r->service, NULL),
                      SIMBA_OK);
        tck_later(s->t, close_rival, r);
    }
}

static struct storm *make_storm(struct tck *t)
{
    struct storm *s = tck_alloc(t, sizeof *s);

    s->t = t;
    for (int m = 0; m < MUTEXES; m++) {
        snprintf(s->prizes[m].name, sizeof s->prizes[m].name, "%s/%d", t->mutex,
                 m);
        pthread_mutex_init(&s->prizes[m].lock, NULL);
    }
    for (int i = 0; i < RIVALS; i++) {
        make_rivals(s, s->rivals[i]);
    }
    return s;
}

static void end_storm(void *what)
{
    atomic_store(&((struct storm *)what)->is_over, true);
}

static void look_on(struct storm *s)
{
    int64_t until = simba_loop_now_ms() + STORM_MS;

    while (simba_loop_now_ms() < until) {
        for (int m = 0; m < MUTEXES; m++) {
            expect_one_owner(s, m);
        }
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
}

static void nothing_unsafe_happens(struct tck *t)
{
    struct storm *s = make_storm(t);
    struct tck_aside *users[RIVALS];

    for (int i = 0; i < RIVALS; i++) {
        struct fickle *f = tck_alloc(t, sizeof *f);

        f->storm = s;
        f->rivals = s->rivals[i];
        f->chance = tck_random(t);
        users[i] = tck_aside(t, be_fickle, f);
    }
    tck_later(t, end_storm, s);
    look_on(s);
    end_storm(s);
    for (int i = 0; i < RIVALS; i++) {
        tck_aside_join(t, users[i]);
    }
    for (int i = 0; i < RIVALS * MUTEXES; i++) {
        struct rival *r = &s->rivals[i / MUTEXES][i % MUTEXES];
        const char *offence;

        tck_now(t, r);
        offence = atomic_load(&r->offence);
        if (offence != NULL) {
            tck_fail(t, TCK_HERE, "%s", offence);
        }
    }
    for (int m = 0; m < MUTEXES; m++) {
        expect_tokens(s, &s->prizes[m]);
    }
}

static const struct tck_case cases[] = {
    {"storm.nothing_unsafe_happens",
     "Many contenders of several mutexes, started and stopped at random: never "
     "two owners, no token twice, callbacks in turn (S1, S4, S9).",
     nothing_unsafe_happens, TCK_SAFETY | TCK_LAPSES},
};

const struct tck_topic tck_topic_storm = TCK_TOPIC(cases);
