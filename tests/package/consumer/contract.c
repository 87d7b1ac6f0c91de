/* An author of a backend: the contract, quickly, on the store in memory. */
#include <simba/sys/tck.h>

#include <stdio.h>

int main(void)
{
    simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    simba_tck_summary summary;

    options.store = "memory:consumer";
    options.pattern = "acquire.*";
    if (simba_tck_run(&options, &summary, NULL) != SIMBA_OK) {
        return 1;
    }
    printf("%d passed, %d failed\n", (int)summary.passed, (int)summary.failed);
    return summary.passed > 0 && summary.failed == 0 ? 0 : 1;
}
