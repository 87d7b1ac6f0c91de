#define _GNU_SOURCE
#include "shims/fault_options.h"

#include "shims/shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PERCENT = 100, LATE_DEFAULT_MS = 30, LATE_MOST_MS = 3600000 };

/* Wake-ups have a stream of their own, or their number would change the fate of
 * operations. */
#define WAKE_STREAM UINT64_C(0x68696e7400000000)

/* --- reading ------------------------------------------------------------- */

static bool read_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && text[0] >= '0' &&
           text[0] <= '9' && *number <= most;
}

/* Where the rate of this name is kept; NULL: no rate. */
static unsigned *rate_of(struct simba__fault_options *options, const char *name)
{
    struct {
        const char *name;
        unsigned *rate;
    } rates[] = {{"lose", &options->lose},
                 {"delay", &options->delay},
                 {"double", &options->twice},
                 {"fail", &options->fail},
                 {"echo", &options->echo},
                 {"hint_lose", &options->wake_lose},
                 {"hint_late", &options->wake_late},
                 {"hint_double", &options->wake_double}};

    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (strcmp(rates[i].name, name) == 0) {
            return rates[i].rate;
        }
    }
    return NULL;
}

static bool read_fault(const char *text, enum simba__fault *fault)
{
    static const char *const names[SIMBA__FAULTS] = {
        "none", "fail", "lose", "mute", "delay", "slow", "double", "echo"};

    for (int i = 1; i < SIMBA__FAULTS; i++) {
        if (strcmp(names[i], text) == 0) {
            *fault = (enum simba__fault)i;
            return true;
        }
    }
    return false;
}

static bool read_kind(const char *text, enum simba_request_kind *kind)
{
    for (int i = SIMBA_ACQUIRE; i <= SIMBA_INIT; i++) {
        if (strcmp(simba__shim_request_name((enum simba_request_kind)i),
                   text) == 0) {
            *kind = (enum simba_request_kind)i;
            return true;
        }
    }
    return false;
}

static bool read_one(struct simba__fault_options *options,
                     const char *name,
                     const char *value)
{
    unsigned *rate = rate_of(options, name);
    uint64_t number = 0;
    bool is_fine = false;

    if (rate != NULL) {
        is_fine = read_number(value, PERCENT, &number);
        *rate = (unsigned)number;
    } else if (strcmp(name, "seed") == 0) {
        is_fine = read_number(value, UINT64_MAX, &options->seed);
    } else if (strcmp(name, "nth") == 0) {
        is_fine = read_number(value, UINT64_MAX, &options->nth);
    } else if (strcmp(name, "late") == 0) {
        is_fine = read_number(value, LATE_MOST_MS, &number);
        options->late_ms = number == 0 ? 1 : (int64_t)number;
    } else if (strcmp(name, "as") == 0) {
        is_fine = read_fault(value, &options->as);
    } else if (strcmp(name, "only") == 0) {
        is_fine = read_kind(value, &options->only);
    }
    return is_fine;
}

static unsigned total(const struct simba__fault_options *options)
{
    return options->lose + options->delay + options->twice + options->fail +
           options->echo;
}

static unsigned wake_total(const struct simba__fault_options *options)
{
    return options->wake_lose + options->wake_late + options->wake_double;
}

static int complain(const char *word, simba_error *error)
{
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "fault: \"%.40s\" must be seed=N, lose, delay, "
                           "double, fail, echo, hint_lose, hint_late or "
                           "hint_double=PERCENT, late=MS, nth=N, as=FAULT or "
                           "only=OPERATION",
                           word);
}

int simba__fault_options_read(struct simba__fault_options *options,
                              char *text,
                              simba_error *error)
{
    bool is_chosen = false;
    char *rest = text;
    char *word;

    *options = (struct simba__fault_options){.late_ms = LATE_DEFAULT_MS,
                                             .as = SIMBA__FAULT_FAIL};
    while ((word = strsep(&rest, ",")) != NULL) {
        char *value = strchr(word, '=');

        if (*word == '\0' && value == NULL) {
            continue;
        }
        if (value != NULL) {
            *value++ = '\0';
        }
        if (value == NULL || !read_one(options, word, value)) {
            return complain(word, error);
        }
        is_chosen |= rate_of(options, word) != NULL || options->nth != 0;
    }
    if (!is_chosen) {
        options->lose = options->twice = options->fail = 5;
        options->delay = options->wake_lose = 10;
        options->wake_late = options->wake_double = 10;
    }
    if (total(options) > PERCENT || wake_total(options) > PERCENT) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "fault: more than 100 percent altogether");
    }
    return SIMBA_OK;
}

/* --- drawing ------------------------------------------------------------- */

static struct simba__fate late(enum simba__fault fault,
                               const struct simba__fault_options *options,
                               struct simba__rng *rng)
{
    uint64_t ms = simba__rng_below(rng, (uint64_t)options->late_ms);

    return (struct simba__fate){fault, 1 + (int64_t)ms};
}

static enum simba__fault draw_fault(const struct simba__fault_options *options,
                                    struct simba__rng *rng)
{
    unsigned roll = (unsigned)simba__rng_below(rng, PERCENT);
    bool is_first = simba__rng_below(rng, 2) == 0;

    if (roll < options->lose) {
        return is_first ? SIMBA__FAULT_LOSE : SIMBA__FAULT_MUTE;
    }
    roll -= options->lose;
    if (roll < options->delay) {
        return is_first ? SIMBA__FAULT_DELAY : SIMBA__FAULT_SLOW;
    }
    roll -= options->delay;
    if (roll < options->twice) {
        return SIMBA__FAULT_DOUBLE;
    }
    roll -= options->twice;
    if (roll < options->fail) {
        return SIMBA__FAULT_FAIL;
    }
    return roll - options->fail < options->echo ? SIMBA__FAULT_ECHO
                                                : SIMBA__FAULT_NONE;
}

struct simba__fate simba__fault_draw(const struct simba__fault_options *options,
                                     uint64_t n)
{
    struct simba__rng rng;
    enum simba__fault fault;

    simba__rng_seed(&rng, options->seed * UINT64_C(0x9e3779b97f4a7c15) + n);
    fault = draw_fault(options, &rng);
    if (options->nth != 0) {
        fault = n == options->nth ? options->as : fault;
    }
    return late(fault, options, &rng);
}

static enum simba__fault draw_wake(const struct simba__fault_options *options,
                                   struct simba__rng *rng)
{
    unsigned roll = (unsigned)simba__rng_below(rng, PERCENT);

    if (roll < options->wake_lose) {
        return SIMBA__FAULT_LOSE;
    }
    roll -= options->wake_lose;
    if (roll < options->wake_late) {
        return SIMBA__FAULT_DELAY;
    }
    return roll - options->wake_late < options->wake_double
               ? SIMBA__FAULT_DOUBLE
               : SIMBA__FAULT_NONE;
}

struct simba__fate simba__fault_draw_wake(
    const struct simba__fault_options *options,
    uint64_t n)
{
    struct simba__rng rng;

    simba__rng_seed(&rng, (options->seed * UINT64_C(0x9e3779b97f4a7c15) + n) ^
                              WAKE_STREAM);
    return late(draw_wake(options, &rng), options, &rng);
}
