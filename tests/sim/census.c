/* Counts what contenders of one mutex ask of their store, in a world without
 * faults: while nothing happens, and when the mutex changes hands.
 *
 *   census CONTENDERS [TTL_MS TRANSITION_MS]
 *   census --check      that what one costs does not grow with their number */
#include "sim/story.h"

#include <stdlib.h>
#include <string.h>

enum { LEASES = 20, HAND_OVERS = 50, PATIENCE_MS = 60000 };

struct census {
    int contenders;
    double lease_s;
    /* requests in a lease */
    double owner, waiter;
    /* messages of a hand-over, with who goes and comes again */
    double requests, wakes;
};

static struct world world;

static uint64_t sent(const struct world *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof w->sent / sizeof w->sent[0]; i++) {
        sum += w->sent[i];
    }
    return sum;
}

static void forget(struct world *w)
{
    memset(w->sent, 0, sizeof w->sent);
    w->backstops = w->wakes = 0;
}

/* The owner goes; it comes again when the next one is there. */
static void hand_over(struct world *w)
{
    int former = world_owner(w);
    int64_t until_us = w->now_us + PATIENCE_MS * INT64_C(1000);

    story_stop(w, former);
    while ((world_owner(w) < 0 || world_owner(w) == former) &&
           w->now_us < until_us) {
        world_tick(w);
    }
    if (world_owner(w) < 0) {
        fprintf(stderr, "nobody came to own the mutex\n");
        exit(1);
    }
    world_run_until(w, w->now_us + 100000);
    story_start_again(w, former);
    world_run_until(w, w->now_us + 100000);
}

static struct census count(int contenders,
                           int64_t ttl_ms,
                           int64_t transition_ms)
{
    struct world *w = &world;
    struct census c = {.contenders = contenders};
    int64_t lease_us;

    story_begin(w, contenders, NULL);
    w->weather.latency_us = 500;
    w->callback_us = 1000;
    w->config.lease =
        (struct simba__lease){.ttl_ms = ttl_ms, .transition_ms = transition_ms};
    w->config.lease.budget_ms =
        simba__lease_budget_default_ms(&w->config.lease);
    lease_us = world_lease_us(w);
    c.lease_s = (double)lease_us / 1e6;
    for (int i = 0; i < contenders; i++) {
        story_start(w, i);
    }
    world_run_until(w, w->now_us + 3 * lease_us);
    forget(w);
    world_run_until(w, w->now_us + LEASES * lease_us);
    c.owner = (double)w->sent[SIMBA_RENEW] / LEASES;
    c.waiter =
        contenders == 1 ? 0 : (double)w->backstops / LEASES / (contenders - 1);
    forget(w);
    for (int i = 0; i < HAND_OVERS && contenders > 1; i++) {
        hand_over(w);
    }
    /* What those ask meanwhile who only wait, or own it, is none of it. */
    c.requests =
        (double)(sent(w) - w->backstops - w->sent[SIMBA_RENEW]) / HAND_OVERS;
    c.wakes = (double)w->wakes / HAND_OVERS;
    world_fini(w);
    return c;
}

static bool is_within(double value, double least, double most, const char *what)
{
    if (value < least || value > most) {
        printf("%s: %.2f is not between %.2f and %.2f\n", what, value, least,
               most);
        return false;
    }
    return true;
}

static int check(void)
{
    struct census few = count(8, 10000, 6000), many = count(200, 10000, 6000);
    bool is_right =
        is_within(few.owner, 1, 3, "renewals of a lease") &&
        is_within(many.owner, few.owner, few.owner, "the same with many") &&
        is_within(few.waiter, 0.5, 1.5, "what a waiter asks in a lease") &&
        is_within(many.waiter, few.waiter * 0.9, few.waiter * 1.1,
                  "the same with many") &&
        is_within(many.requests, 0, few.requests + 0.5,
                  "requests of a hand-over with many") &&
        is_within(many.wakes, 0, few.wakes + 1, "wake-ups of it");

    return is_right ? 0 : 1;
}

int main(int argc, char **argv)
{
    int contenders = argc > 1 ? atoi(argv[1]) : 0;
    struct census c;

    if (argc == 2 && strcmp(argv[1], "--check") == 0) {
        return check();
    }
    if ((argc != 2 && argc != 4) || contenders < 1 ||
        contenders > WORLD_NODES_MOST) {
        fprintf(stderr,
                "usage: census CONTENDERS [TTL_MS TRANSITION_MS] | --check\n"
                "at most %d contenders\n",
                WORLD_NODES_MOST);
        return 2;
    }
    c = count(contenders, argc == 4 ? atoll(argv[2]) : 10000,
              argc == 4 ? atoll(argv[3]) : 6000);
    printf("%d contenders, leases of %.1f s: the owner asks %.2f times in a "
           "lease, each waiter %.2f times; a hand-over takes %.1f requests and "
           "%.1f wake-ups\n",
           c.contenders, c.lease_s, c.owner, c.waiter, c.requests, c.wakes);
    return 0;
}
