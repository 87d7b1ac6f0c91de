/* Times that do not go together; see times.h. */
#define _GNU_SOURCE
#include "times.h"
#include "say.h"

#include <simba/contender.h>

#include <stdio.h>

enum { SECOND = 1000, ROOM = 64, ROUNDS = 16 };

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

/* How long the transition would have to be for the budget to fit: it costs
 * nothing while all is well. Each round leaves a fiftieth of what was lacking;
 * 0: there is no such lease. */
static int64_t transition_for(const struct lease *lease, int64_t budget_ms)
{
    int64_t found_ms = lease->transition_ms, lacking_ms = 1;

    for (int i = 0; i < ROUNDS && lacking_ms > 0; i++) {
        lacking_ms =
            budget_ms - simba_times_budget_most_ms(lease->ttl_ms, found_ms);
        found_ms += lacking_ms > 0 ? lacking_ms : 0;
    }
    return lacking_ms > 0 ? 0 : (found_ms + SECOND - 1) / SECOND * SECOND;
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
    int64_t longer_ms =
        transition_for(lease, job->kill_after_ms + SIMBA__KILL_MS);

    return simba_error_set(
        error, SIMBA_EINVAL, 0,
        "--kill-after %s does not fit into a lease of %s: write %s%s%s%s",
        write_down(job->kill_after_ms, given),
        write_down(lease->ttl_ms + lease->transition_ms, whole),
        most_ms < 0 ? "none" : "at most ",
        most_ms < 0 ? "" : write_down(most_ms, most),
        longer_ms == 0 ? "" : " or give a longer lease, as by --transition ",
        longer_ms == 0 ? "" : write_down(longer_ms, longer));
}

int simba__times_fit(const struct simba__job *job,
                     const simba_store *store,
                     simba_error *error)
{
    struct lease lease = lease_of(job, store);
    int64_t most_ms =
        simba_times_budget_most_ms(lease.ttl_ms, lease.transition_ms) -
        SIMBA__KILL_MS;

    return job->kill_after_ms <= most_ms || job->kill_after_ms < 0
               ? SIMBA_OK
               : refuse(job, &lease, most_ms, error);
}
