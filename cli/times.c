/* Times that do not go together; see times.h. */
#define _GNU_SOURCE
#include "times.h"
#include "say.h"

#include <simba/contender.h>

#include <stdio.h>

enum { SECOND = 1000, ROOM = 64 };

struct lease {
    int64_t ttl_ms, transition_ms;
};

bool simba__times_agree(const struct simba__job *job)
{
    if (job->max_hold_ms > 0 && job->min_hold_ms > job->max_hold_ms) {
        simba__say("--min-hold is longer than --max-hold: make one of them "
                   "longer or shorter");
        return false;
    }
    return true;
}

static struct lease lease_of(const struct simba__job *job,
                             const simba_store *store)
{
    struct lease lease;

    simba_store_lease(store, &lease.ttl_ms, &lease.transition_ms);
    lease.ttl_ms = job->ttl_ms > 0 ? job->ttl_ms : lease.ttl_ms;
    lease.transition_ms =
        job->transition_ms >= 0 ? job->transition_ms : lease.transition_ms;
    return lease;
}

/* What would have to be longer for the budget to fit; a longer transition costs
 * nothing while all is well. */
static int64_t transition_for(const struct lease *lease, int64_t budget_ms)
{
    int64_t found_ms = lease->transition_ms, lacking_ms;

    do {
        lacking_ms =
            budget_ms - simba_contender_budget_most_ms(lease->ttl_ms, found_ms);
        found_ms += lacking_ms > 0 ? lacking_ms : 0;
    } while (lacking_ms > 0);
    return (found_ms + SECOND - 1) / SECOND * SECOND;
}

/* As it can be written again. */
static const char *write_down(int64_t ms, char text[ROOM])
{
    (void)snprintf(text, ROOM, "%.16gs", (double)ms / SECOND);
    return text;
}

static int refuse(const struct simba__job *job,
                  const struct lease *lease,
                  int64_t most_ms,
                  simba_error *error)
{
    char given[ROOM], whole[ROOM], most[ROOM], longer[ROOM];
    int64_t budget_ms = job->kill_after_ms + SIMBA__KILL_MS;

    return simba_error_set(
        error, SIMBA_EINVAL, 0,
        "--kill-after %s does not fit into a lease of %s: write %s%s or give "
        "a longer lease, as by --transition %s",
        write_down(job->kill_after_ms, given),
        write_down(lease->ttl_ms + lease->transition_ms, whole),
        most_ms < 0 ? "none" : "at most ",
        most_ms < 0 ? "" : write_down(most_ms, most),
        write_down(transition_for(lease, budget_ms), longer));
}

int simba__times_fit(const struct simba__job *job,
                     const simba_store *store,
                     simba_error *error)
{
    struct lease lease = lease_of(job, store);
    int64_t most_ms =
        simba_contender_budget_most_ms(lease.ttl_ms, lease.transition_ms) -
        SIMBA__KILL_MS;

    return job->kill_after_ms <= most_ms || job->kill_after_ms < 0
               ? SIMBA_OK
               : refuse(job, &lease, most_ms, error);
}
