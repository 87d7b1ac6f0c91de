/* Runs seeded worlds and says which rules were broken.
 *
 *   sim [--seeds N] [--first SEED]        many worlds, silent
 *   sim --replay SEED                     one world, with its trace
 *   sim --plants                          plants every fault in turn; succeeds
 *                                         when its checker speaks up each time
 *   sim --demo                            a short world to look at */
#include "core/plant.h"
#include "sim/story.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    uint64_t first, seeds;
    bool is_replay;
    int expected; /* stop when this rule is broken; -1: never */
};

struct totals {
    uint64_t failing, grants, rotations;
    uint64_t failing_seeds[8]; /* the newest few */
    double hours;
    int violations[RULES];
};

static bool run_seed(uint64_t seed, FILE *trace, struct totals *sum)
{
    struct world w;
    bool failed = false;

    world_init(&w, seed, trace);
    swarm_draw(&w);
    record_begin(&w);
    world_run_until(&w, 40 * world_lease_us(&w));
    heal_and_check(&w);
    for (int i = 0; i < RULES; i++) {
        sum->violations[i] += w.violations[i];
        failed |= w.violations[i] > 0;
    }
    sum->grants += w.grants;
    sum->rotations += (uint64_t)w.rotations;
    sum->hours += (double)w.now_us / 3.6e9;
    record_end(&w);
    world_fini(&w);
    return !failed;
}

static void report(const struct options *o,
                   const struct totals *sum,
                   uint64_t ran,
                   double seconds)
{
    printf("%llu seeds from %llu: %llu failing, %llu grants, %llu watched "
           "hand-overs, %.0f simulated hours in %.1f s\n",
           (unsigned long long)ran, (unsigned long long)o->first,
           (unsigned long long)sum->failing, (unsigned long long)sum->grants,
           (unsigned long long)sum->rotations, sum->hours, seconds);
    for (int i = 0; i < RULES; i++) {
        if (sum->violations[i] > 0) {
            printf("  %-8s broken %d times\n", rule_names[i],
                   sum->violations[i]);
        }
    }
    for (uint64_t i = 0; i < sum->failing && i < 8; i++) {
        printf("failing seed %llu; replay it with: sim --replay %llu\n",
               (unsigned long long)sum->failing_seeds[i],
               (unsigned long long)sum->failing_seeds[i]);
    }
}

static void show_progress(const struct options *o,
                          const struct totals *sum,
                          uint64_t ran)
{
    if (o->seeds >= 100000 && ran % 50000 == 0) {
        fprintf(stderr, "%llu of %llu seeds, %llu failing\n",
                (unsigned long long)ran, (unsigned long long)o->seeds,
                (unsigned long long)sum->failing);
    }
}

static uint64_t run_seeds(const struct options *o, struct totals *sum)
{
    uint64_t ran = 0;

    while (ran < o->seeds &&
           (o->expected < 0 || sum->violations[o->expected] == 0)) {
        uint64_t seed = o->first + ran++;
        if (!run_seed(seed, o->is_replay ? stdout : NULL, sum)) {
            sum->failing_seeds[sum->failing++ % 8] = seed;
        }
        show_progress(o, sum, ran);
    }
    return ran;
}

static int run(const struct options *o)
{
    struct totals sum = {0};
    clock_t start = clock();
    uint64_t ran = run_seeds(o, &sum);

    report(o, &sum, ran, (double)(clock() - start) / CLOCKS_PER_SEC);
    return sum.failing > 0;
}

#ifdef SIMBA_PLANTABLE
enum simba__plant simba__plant;

struct plant {
    const char *name;
    enum rule rule;
    const char *text;
    enum simba__plant fault;
};

/* Faults of a store that show in what contenders hear, and so in a trace. */
static bool shows_in_history(enum simba__plant fault)
{
    switch (fault) {
    case SIMBA__PLANT_REPEAT_NO_EXTEND:
    case SIMBA__PLANT_LIMIT_IGNORED:
    case SIMBA__PLANT_LIMIT_MINE_ONLY:
    case SIMBA__PLANT_SLOT_TWICE:
    case SIMBA__PLANT_SHARED_PASSES:
    case SIMBA__PLANT_TOKEN_COUNTS:
    case SIMBA__PLANT_TOKEN_STUCK:
    case SIMBA__PLANT_RELEASE_BY_ID:
    case SIMBA__PLANT_RENEW_BY_ID:
    case SIMBA__PLANT_ACQUIRE_BY_ID:
    case SIMBA__PLANT_BREAK_RENEWS:
    case SIMBA__PLANT_BARGING:
    case SIMBA__PLANT_QUEUE_REVERSED:
    case SIMBA__PLANT_OFFER_FORGOTTEN:
        return true;
    default:
        return false;
    }
}

static bool try_plant(const struct plant *plant, enum rule rule, int number)
{
    struct options o = {.first = 1, .seeds = 20000, .expected = (int)rule};
    struct totals sum = {0};
    uint64_t ran;
    bool is_seen;

    simba__plant = plant->fault;
    ran = run_seeds(&o, &sum);
    is_seen = sum.violations[rule] > 0;
    printf("%s %d - %s (%s): %s by the checker of %s in %llu seeds\n",
           is_seen ? "ok" : "not ok", number, plant->name, plant->text,
           is_seen ? "seen" : "MISSED", rule_names[rule],
           (unsigned long long)ran);
    return is_seen;
}

/* One test in TAP for each fault, and one more if the history shows it. */
static int run_plants(void)
{
#define PLANT_ROW(fault, rule, text) {#fault, rule, text, SIMBA__PLANT_##fault},
    static const struct plant plants[] = {SIMBA__PLANT_MAP(PLANT_ROW)};
    int count = (int)(sizeof plants / sizeof *plants), tests = 0, missed = 0;

    for (int i = 0; i < count; i++) {
        missed += !try_plant(&plants[i], plants[i].rule, ++tests);
        if (shows_in_history(plants[i].fault)) {
            missed += !try_plant(&plants[i], HISTORY, ++tests);
        }
    }
    printf("1..%d\n", tests);
    return missed > 0;
}
#else
static int run_plants(void)
{
    fputs("sim: this build has no faults to plant: use sim_planted\n", stderr);
    return 64;
}
#endif

static uint64_t number(const char *text)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "sim: not a number: %s\n", text);
        exit(64);
    }
    return n;
}

static int usage(void)
{
    fputs("usage: sim [--seeds N] [--first SEED]\n"
          "       sim --replay SEED\n"
          "       sim --demo\n"
          "       sim_planted --plants\n",
          stderr);
    return 64;
}

/* Three contenders, a crash and an orderly stop, in simulated time. */
static int demo(void)
{
    struct world w;

    puts(
        "Three contenders share one mutex in simulated time (ms), on leases\n"
        "of 3 s. n0 gets it first and is killed; when its lease has run out\n"
        "the first of the queue takes over, and then hands it on by stopping.\n"
        "Tokens grow with every tenure.\n");
    story_begin(&w, 3, stdout);
    for (int i = 0; i < 3; i++) {
        story_start(&w, i);
        story_run_to(&w, (i + 1) * 100);
    }
    story_kill(&w, 0);
    story_run_to(&w, 4000);
    story_stop(&w, 1);
    story_run_to(&w, 4100);
    world_fini(&w);
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.first = 1, .seeds = 1000, .expected = -1};

    if (argc == 2 && strcmp(argv[1], "--demo") == 0) {
        return demo();
    }
    if (argc == 2 && strcmp(argv[1], "--plants") == 0) {
        return run_plants();
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0) {
            o.seeds = number(argv[i + 1]);
        } else if (strcmp(argv[i], "--first") == 0) {
            o.first = number(argv[i + 1]);
        } else if (strcmp(argv[i], "--replay") == 0) {
            o.first = number(argv[i + 1]);
            o.seeds = 1;
            o.is_replay = true;
        } else {
            return usage();
        }
    }
    return argc % 2 == 0 ? usage() : run(&o);
}
