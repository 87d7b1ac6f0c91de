#include "core/spin.h"

#include <assert.h>

enum { ASLEEP, LOOKING };

enum {
    MEAN_OF = 4, /* waits, about */
    /* Looking must be faster by a tenth, or the CPU is better used by others.
     */
    PAYS_NUM = 9,
    PAYS_DEN = 10,
    STAY_MOST = 1 << 16,
    VAIN_SHARE = 32, /* of all time at most one part is looked in vain, */
    VAIN_MOST_NS = 2000000,
    LOOK_BEYOND_NS = 10000, /* twice what it takes as a rule, and so much */
    /* Others wait for the CPU when it is taken away so often in so long. */
    SWITCHES = 2,
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
    assert(most_us >= 0 && most_us <= SIMBA__SPIN_LIMIT_US);
    *spin = (struct simba__spin){.most_ns = (int64_t)most_us * 1000,
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
               ? spin->most_ns
               : least(spin->most_ns, 2 * spin->look_ns + LOOK_BEYOND_NS);
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

/* A trial is over: which way was faster? Looking that does not pay is tried
 * more and more seldom. */
static void choose(struct simba__spin *spin)
{
    const int64_t *mean = spin->mean_ns;
    bool pays = mean[LOOKING] != 0 &&
                mean[LOOKING] < mean[ASLEEP] / PAYS_DEN * PAYS_NUM;

    if (pays) {
        spin->stay = SIMBA__SPIN_STAY;
    } else if (spin->is_looking) {
        spin->stay = (unsigned)least((int64_t)spin->stay * 2, STAY_MOST);
    }
    spin->is_trial = false;
    spin->is_looking = pays;
    spin->left = spin->stay;
}

void simba__spin_learn(struct simba__spin *spin,
                       int64_t now_ns,
                       const struct simba__spin_wait *wait)
{
    int64_t looked_ns = wait->looked_ns;

    if (spin->most_ns == 0) {
        return;
    }
    add(&spin->mean_ns[looked_ns > 0 ? LOOKING : ASLEEP], wait->waited_ns);
    spin->looked_ns += looked_ns;
    if (looked_ns > 0) { /* in vain: it may have been too short */
        add(&spin->look_ns, wait->is_vain ? 2 * looked_ns : looked_ns);
        spin->vain_ns += wait->is_vain ? looked_ns : 0;
    }
    if (now_ns < spin->resume_ns || --spin->left > 0) {
        return;
    }
    if (spin->is_trial) {
        choose(spin);
        return;
    }
    spin->is_trial = true;
    spin->is_looking = !spin->is_looking;
    spin->left = SIMBA__SPIN_TRIAL;
}

bool simba__spin_asks(const struct simba__spin *spin)
{
    return spin->looked_ns >= ASK_NS;
}

void simba__spin_switched(struct simba__spin *spin,
                          int64_t now_ns,
                          int64_t switches)
{
    spin->looked_ns = 0;
    if (switches < SWITCHES) {
        spin->pause_ns = 0;
        return;
    }
    spin->pause_ns = spin->pause_ns == 0 ? PAUSE_NS
                                         : least(spin->pause_ns * 2,
                                                 (int64_t)PAUSE_NS << PAUSES);
    spin->resume_ns = now_ns + spin->pause_ns;
}
