#include "core/spin.h"

#include <assert.h>

enum { ASLEEP, LOOKING };

enum {
    MEAN_OF = 4, /* looks, about */
    /* A few waits that took very long say nothing of how it is as a rule. */
    TYPICAL = SIMBA__SPIN_TRIAL * 3 / 4,
    /* Looking must be faster by a tenth, or the CPU is better used by others.
     */
    PAYS_NUM = 9,
    PAYS_DEN = 10,
    /* To look for longer than is usual must save half of the time it takes. */
    FAR_NUM = 2,
    FAR_DEN = 3,
    STAY_MOST = 1 << 14,
    VAIN_SHARE = 8, /* of all time at most one part is looked in vain, */
    VAIN_MOST_NS = 2000000,
    LOOK_BEYOND_NS = 10000, /* twice what it takes as a rule, and so much */
    /* Others wait for the CPU when it is taken away so often in so long. */
    TAKINGS = 2,
    ASK_NS = 10000000,
    PAUSE_NS = 100000000,
    PAUSES = 7, /* the longest is so many times doubled */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void simba__spin_init(struct simba__spin *spin, int most_us)
{
    int far_us = most_us;

    if (most_us == SIMBA__SPIN_ADAPTS) {
        most_us = SIMBA__SPIN_MOST_US;
        far_us = SIMBA__SPIN_FAR_US;
    }
    assert(most_us >= 0 && most_us <= SIMBA__SPIN_LIMIT_US);
    *spin = (struct simba__spin){.most_ns = (int64_t)most_us * 1000,
                                 .far_ns = (int64_t)far_us * 1000,
                                 .limit_ns = (int64_t)most_us * 1000,
                                 .left = SIMBA__SPIN_TRIAL,
                                 .stay = SIMBA__SPIN_STAY};
}

int64_t simba__spin_allow(struct simba__spin *spin, int64_t now_ns)
{
    int64_t forgiven = (now_ns - spin->forgiven_ns) / VAIN_SHARE;

    if (forgiven > 0) {
        spin->vain_ns -= least(forgiven, spin->vain_ns);
        spin->forgiven_ns = now_ns;
    }
    if (!spin->is_looking || now_ns < spin->resume_ns ||
        spin->vain_ns > VAIN_MOST_NS) {
        return 0;
    }
    return spin->look_ns == 0
               ? spin->limit_ns
               : least(spin->limit_ns, 2 * spin->look_ns + LOOK_BEYOND_NS);
}

/* One wait that took very long says little of the next ones. */
static void add(int64_t *mean_ns, int64_t ns)
{
    ns = ns < 1 ? 1 : ns;
    *mean_ns =
        *mean_ns == 0
            ? ns
            : *mean_ns + (least(ns, 2 * *mean_ns + 1) - *mean_ns) / MEAN_OF;
}

/* The sum of all but the longest of the last waits of one way. */
static int64_t sum_typical(const struct simba__spin *spin, int way)
{
    int64_t shortest[TYPICAL] = {0}, sum = 0;
    int kept = 0;

    for (int i = 0; i < SIMBA__SPIN_TRIAL; i++) {
        int64_t ns = spin->waits_ns[way][i];
        int at = kept < TYPICAL ? kept++ : TYPICAL;

        if (at == TYPICAL && ns >= shortest[TYPICAL - 1]) {
            continue;
        }
        at = at == TYPICAL ? TYPICAL - 1 : at;
        for (; at > 0 && shortest[at - 1] > ns; at--) {
            shortest[at] = shortest[at - 1];
        }
        shortest[at] = ns;
    }
    for (int i = 0; i < TYPICAL; i++) {
        sum += shortest[i];
    }
    return sum;
}

/* One will look: how long at most? What comes later than that would not pay,
 * as who sleeps waits as a rule. */
static void set_limit(struct simba__spin *spin)
{
    int64_t pays_ns = sum_typical(spin, ASLEEP) / TYPICAL / FAR_DEN * FAR_NUM;

    spin->limit_ns =
        pays_ns < spin->most_ns ? spin->most_ns : least(pays_ns, spin->far_ns);
}

static bool is_faster(const struct simba__spin *spin)
{
    int64_t looking = sum_typical(spin, LOOKING);
    int64_t asleep = sum_typical(spin, ASLEEP);

    return looking <= TYPICAL * spin->most_ns
               ? looking < asleep / PAYS_DEN * PAYS_NUM
               : looking < asleep / FAR_DEN * FAR_NUM;
}

/* A trial is over: which way was faster? Looking that does not pay is tried
 * more and more seldom; and what is in vain too often does not pay. */
static void choose(struct simba__spin *spin)
{
    bool pays = spin->vain_ns <= VAIN_MOST_NS &&
                spin->count[LOOKING] >= SIMBA__SPIN_TRIAL && is_faster(spin);

    if (pays && !spin->is_looking) {
        spin->stay = SIMBA__SPIN_STAY; /* it did for long */
    } else if (!pays && spin->is_looking) {
        spin->stay = (unsigned)least((int64_t)spin->stay * 2, STAY_MOST);
    }
    spin->is_trial = false;
    spin->is_looking = pays;
    spin->left = pays ? SIMBA__SPIN_STAY : spin->stay;
    set_limit(spin);
}

/* Others may wait for the CPU: after so much looking that is known. */
static void judge_takings(struct simba__spin *spin, int64_t now_ns)
{
    if (spin->looked_ns < ASK_NS && spin->takings < TAKINGS) {
        return;
    }
    if (spin->takings < TAKINGS) {
        spin->pause_ns = 0;
    } else {
        spin->pause_ns =
            spin->pause_ns == 0
                ? PAUSE_NS
                : least(spin->pause_ns * 2, (int64_t)PAUSE_NS << PAUSES);
        spin->resume_ns = now_ns + spin->pause_ns;
    }
    spin->looked_ns = 0;
    spin->takings = 0;
}

void simba__spin_learn(struct simba__spin *spin,
                       int64_t now_ns,
                       const struct simba__spin_wait *wait)
{
    int64_t looked_ns = wait->looked_ns;
    int way = looked_ns > 0 ? LOOKING : ASLEEP;
    bool is_spent;

    if (spin->most_ns == 0) {
        return;
    }
    spin->waits_ns[way][spin->count[way]++ % SIMBA__SPIN_TRIAL] =
        wait->waited_ns;
    spin->looked_ns += looked_ns;
    spin->takings += wait->takings;
    if (looked_ns > 0) { /* in vain: it may have been too short */
        add(&spin->look_ns, wait->is_vain ? 2 * looked_ns : looked_ns);
        spin->vain_ns += wait->is_vain ? looked_ns : 0;
    }
    judge_takings(spin, now_ns);
    if (now_ns < spin->resume_ns) {
        return;
    }
    is_spent = spin->is_looking && spin->vain_ns > VAIN_MOST_NS;
    if (--spin->left > 0 && !is_spent) {
        return;
    }
    if (spin->is_trial || is_spent) {
        choose(spin);
        return;
    }
    spin->is_trial = true;
    spin->is_looking = !spin->is_looking;
    spin->left = SIMBA__SPIN_TRIAL;
    set_limit(spin);
    if (spin->is_looking && spin->limit_ns > spin->most_ns) {
        spin->look_ns = 0; /* that was when replies came sooner */
    }
}
