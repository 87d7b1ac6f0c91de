/* The words of a command line: the whole of simba(1), but that no store can be
 * opened, no CMD is started and no other program run (--wrap, in
 * CMakeLists.txt). Words are ended by a line feed. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "cli/cli.h"
#include "cli/job.h"

#include <simba/store.h>

#include <getopt.h>
#include <setjmp.h>
#include <unistd.h>

enum { WORDS_MOST = 24 };

/* main.c's own, renamed; it ends by _exit(), renamed too. */
int simba__fuzz_main(int argc, char **argv);
_Noreturn void simba__fuzz_exit(int code);
char *simba__fuzz_strdup(const char *text);

static jmp_buf at_exit;
static int exit_code;
static char *kept[WORDS_MOST]; /* by the options */
static int kept_count;

char *simba__fuzz_strdup(const char *text)
{
    FUZZ_CHECK(kept_count < WORDS_MOST);
    kept[kept_count] = strdup(text);
    return kept[kept_count++];
}

_Noreturn void simba__fuzz_exit(int code)
{
    exit_code = code;
    longjmp(at_exit, 1);
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the
 * linker's names. */
int __wrap_simba_store_open(const char *url,
                            const simba_store_options *options,
                            simba_store **store,
                            simba_error *error);
int __wrap_simba__front_run(struct simba__job *job);
int __wrap_simba__external_run(const struct simba__cli *cli,
                               int argc,
                               char **argv);

int __wrap_simba_store_open(const char *url,
                            const simba_store_options *options,
                            simba_store **store,
                            simba_error *error)
{
    (void)url;
    (void)options;
    *store = NULL;
    return simba_error_set(error, SIMBA_EUNAVAIL, 0, "no stores here");
}

/* What would run was made of the words: it has all it needs. */
int __wrap_simba__front_run(struct simba__job *job)
{
    FUZZ_CHECK(job->mutex != NULL && job->argv != NULL);
    FUZZ_CHECK(job->argv[0] != NULL);
    FUZZ_CHECK(job->wait_ms >= -1 && job->transition_ms >= -1);
    FUZZ_CHECK(job->conflict_code >= 0 && job->conflict_code <= 255);
    return 0;
}

int __wrap_simba__external_run(const struct simba__cli *cli,
                               int argc,
                               char **argv)
{
    (void)cli;
    FUZZ_CHECK(argc > 0 && argv[0] != NULL);
    return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char program[] = "simba";
    char *text = fuzz_text(data, size), *rest = text, *word;
    char *words[WORDS_MOST + 2] = {program};
    char *own[WORDS_MOST + 1];
    int count = 1;

    setenv("SIMBA_CONFIG", "/dev/null", 1);
    setenv("PATH", "/nonexistent", 1);
    while (count <= WORDS_MOST && (word = strsep(&rest, "\n")) != NULL) {
        own[count - 1] = strdup(word); /* each ends where it ends */
        FUZZ_CHECK(own[count - 1] != NULL);
        words[count] = own[count - 1];
        count++;
    }
    optind = 0; /* from the start again */
    if (setjmp(at_exit) == 0) {
        (void)simba__fuzz_main(count, words);
    }
    FUZZ_CHECK(exit_code >= 0 && exit_code <= 255);
    for (int i = 0; i < count - 1; i++) {
        free(own[i]);
    }
    while (kept_count > 0) {
        free(kept[--kept_count]);
    }
    free(text);
    return 0;
}
