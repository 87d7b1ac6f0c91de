/* Event logs as simba verify reads them, and the checker of histories behind
 * it. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "verify/log.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void complain(const struct simba__trace_log *log, const char *problem)
{
    FUZZ_CHECK(log->line > 0 && problem[0] != '\0');
}

static void on_found(void *user, const struct simba__history_finding *finding)
{
    (void)user;
    FUZZ_CHECK(simba__finding_word(finding->kind) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct simba__boots boots = {.count = 0};
    struct simba__trace_log log = {.complain = complain, .boots = &boots};
    const struct simba__deed *deed;
    struct simba__history *history;
    char path[64];

    if (fd < 0) {
        fd = memfd_create("log", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
    FUZZ_CHECK(simba__log_open(&log, path, 0));
    history = simba__history_open(on_found, NULL);
    FUZZ_CHECK(history != NULL);
    while (simba__log_peek(&log, &deed) && deed != NULL) {
        FUZZ_CHECK(simba__history_add(history, deed));
        simba__log_take(&log);
    }
    FUZZ_CHECK(simba__history_finish(history));
    simba__history_close(history);
    simba__log_close(&log);
    simba__boots_fini(&boots);
    return 0;
}
