/* The contract on one store, told in TAP:
 *
 *     contract [--quick] [--faulty] URL [GLOB] */
#include <simba/sys/tck.h>

#include <stdio.h>
#include <string.h>

static void report(void *user, const simba_tck_result *result)
{
    static const char *const lines[] = {[SIMBA_TCK_PASSED] = "ok",
                                        [SIMBA_TCK_FAILED] = "not ok",
                                        [SIMBA_TCK_SKIPPED] = "ok"};
    bool is_skipped = result->verdict == SIMBA_TCK_SKIPPED;

    (void)user;
    if (result->verdict == SIMBA_TCK_STARTED) {
        return;
    }
    printf("%s %zu - %s%s%s\n", lines[result->verdict], result->index + 1,
           result->test->name, is_skipped ? " # SKIP only " : "",
           is_skipped ? result->message : "");
    if (result->verdict == SIMBA_TCK_FAILED) {
        printf("# %s\n", result->message);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;
    simba_error error;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--faulty") == 0) {
            options.is_faulty = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.is_quick = true;
        } else if (options.store == NULL) {
            options.store = argv[i];
        } else {
            options.pattern = argv[i];
        }
    }
    options.report = report;
    if (simba_tck_run(&options, &summary, &error) != SIMBA_OK) {
        printf("not ok 1 - %s\n", error.message);
        return 1;
    }
    printf("1..%zu\n# seed %llu\n",
           summary.passed + summary.failed + summary.skipped,
           (unsigned long long)summary.seed);
    return summary.failed == 0 && summary.passed > 0 ? 0 : 1;
}
