/* The safety tests of the contract through the shim `fault`, seed by seed:
 *
 *     seeds STORE FIRST COUNT [TEST]
 *
 * STORE is the beginning of inner URLs, of which there are fifty; each seed has
 * a weather of its own: which faults there are, and how often. Seeds mostly
 * wait, so many processes run them at once. A failing seed is printed with the
 * URL that shows it again. */
#define _GNU_SOURCE
#include <simba/sys/tck.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 100, STORES = 50, URL_ROOM = 512 };

struct plan {
    const char *store;
    const char *pattern;
    unsigned long first, count;
};

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Half of all worlds have none of a given fault, so that runs differ in kind
 * and not just in luck. */
static unsigned rate(uint64_t *state, unsigned most)
{
    uint64_t lot = draw(state);

    return lot % 2 == 0 ? 0 : (unsigned)((lot >> 8) % most);
}

static void make_url(const struct plan *plan, unsigned long seed, char *url)
{
    uint64_t state = seed;
    unsigned lose = rate(&state, 15);
    unsigned delay = rate(&state, 30);
    unsigned twice = rate(&state, 15);
    unsigned fail = rate(&state, 15);
    unsigned echo = rate(&state, 15);
    unsigned late = 1 + (unsigned)(draw(&state) % 200);
    unsigned wake_lose = rate(&state, 60);
    unsigned wake_late = rate(&state, 30);

    snprintf(url, URL_ROOM,
             "fault:seed=%lu,lose=%u,delay=%u,double=%u,fail=%u,echo=%u,"
             "late=%u,wake_lose=%u,wake_late=%u,wake_double=10:%s%lu",
             seed, lose, delay, twice, fail, echo, late, wake_lose, wake_late,
             plan->store, seed % STORES);
}

static void tell(void *user, const simba_tck_result *result)
{
    if (result->verdict == SIMBA_TCK_FAILED) {
        printf("# %s\n#   %s: %s\n", (const char *)user, result->test->name,
               result->message);
        fflush(stdout);
    }
}

static bool run_seed(const struct plan *plan, unsigned long seed)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;
    simba_error error = {0};
    char url[URL_ROOM];

    make_url(plan, seed, url);
    options.store = url;
    options.pattern = plan->pattern;
    options.is_faulty = true;
    options.seed = seed;
    options.report = tell;
    options.user = url;
    if (simba_tck_run(&options, &summary, &error) != SIMBA_OK) {
        printf("# %s: %s\n", url, error.message);
        return false;
    }
    return summary.failed == 0 && summary.passed > 0;
}

/* Every AT_ONCE-th seed from `from` on. Exits with the number of failures. */
static void run_share(const struct plan *plan, unsigned long from)
{
    int failures = 0;

    for (unsigned long i = from; i < plan->count; i += AT_ONCE) {
        failures += run_seed(plan, plan->first + i) ? 0 : 1;
    }
    fflush(stdout);
    _exit(failures < 100 ? failures : 100);
}

static int run_all(const struct plan *plan)
{
    int failures = 0;
    int status;

    for (unsigned long i = 0; i < AT_ONCE; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            run_share(plan, i);
        }
        if (pid < 0) {
            perror("fork");
            failures++;
        }
    }
    while (wait(&status) > 0) {
        failures += WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        if (WIFSIGNALED(status)) {
            printf("# a process died of signal %d\n", WTERMSIG(status));
        }
    }
    return failures;
}

int main(int argc, char **argv)
{
    struct plan plan = {NULL, NULL, 0, 0};
    int failures;

    if (argc < 4) {
        fputs("usage: seeds STORE FIRST COUNT [TEST]\n", stderr);
        return 64;
    }
    plan.store = argv[1];
    plan.first = strtoul(argv[2], NULL, 10);
    plan.count = strtoul(argv[3], NULL, 10);
    plan.pattern = argc > 4 ? argv[4] : NULL;
    failures = run_all(&plan);
    printf("%s - %lu seeds from %lu, %d failing\n",
           failures == 0 ? "ok 1" : "not ok 1", plan.count, plan.first,
           failures);
    return failures == 0 ? 0 : 1;
}
