/* Whether to look for a reply for a while before sleeping until it comes.
 *
 * A CPU that has gone idle takes long to wake, which who sleeps pays in every
 * round trip; where CPUs are busy anyway, looking is slower than sleeping.
 * Which of both holds cannot be known beforehand, so both are tried in turns,
 * and what took less time is kept. Where who sleeps was seen to wait for long,
 * one looks for longer than else, if that saves half of the time one looks. A
 * pure function of the times it is given. */
#ifndef SIMBA_CORE_SPIN_H
#define SIMBA_CORE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIMBA__SPIN_ADAPTS = -1,      /* unless the URL says how long: */
    SIMBA__SPIN_MOST_US = 100,    /* so long, */
    SIMBA__SPIN_FAR_US = 300,     /* or where sleeping takes very long, so */
    SIMBA__SPIN_LIMIT_US = 10000, /* the most a URL may say */
    SIMBA__SPIN_TRIAL = 16,       /* waits to try the other way */
    SIMBA__SPIN_STAY = 512,       /* waits between two trials, at least */
    /* Who looks, and sees nothing at all for so long, did not have the CPU.
     * What the kernel does in between is shorter. */
    SIMBA__SPIN_TAKEN_NS = 200000,
};

/* Times in nanoseconds, of any one clock. */
struct simba__spin {
    int64_t most_ns;  /* to look at once; 0: never */
    int64_t far_ns;   /* the same where sleeping takes very long */
    int64_t limit_ns; /* the one of these, or in between, that holds now */
    /* How long the last waits took, asleep and looking, and how many came. */
    int64_t waits_ns[2][SIMBA__SPIN_TRIAL];
    unsigned count[2];
    int64_t look_ns; /* for how long one looks as a rule; 0: not known */
    bool is_looking; /* else it sleeps at once */
    bool is_trial;   /* of the other way */
    unsigned left;   /* waits until that changes */
    unsigned stay;   /* waits between two trials */

    int64_t vain_ns;     /* looked in vain, less what is forgiven by time, */
    int64_t forgiven_ns; /* until then */

    int64_t looked_ns; /* since it was last asked whether, */
    unsigned takings;  /* so often, the CPU was taken away */
    int64_t pause_ns;  /* because others waited for the CPU, */
    int64_t resume_ns; /* until then */
};

/** Begin by sleeping.
 *
 * @param most_us  to look at once; 0: never; SIMBA__SPIN_ADAPTS: as is good
 *                 here */
void simba__spin_init(struct simba__spin *spin, int most_us);

/** How long to look now; 0: sleep at once. */
int64_t simba__spin_allow(struct simba__spin *spin, int64_t now_ns);

/* A wait that is over. */
struct simba__spin_wait {
    int64_t waited_ns; /* what was waited for had to wait, or took to come */
    int64_t looked_ns; /* 0: one slept at once */
    bool is_vain;      /* one looked, and slept in the end */
    unsigned takings;  /* so often others had the CPU while one looked */
};

void simba__spin_learn(struct simba__spin *spin,
                       int64_t now_ns,
                       const struct simba__spin_wait *wait);

#endif
