/* Both ways of docs/guards.md: by the last token of the mutex, and by a mark.
 */
#include "fixtures/paused_owner.h"
#include "resource.h"

#include <simba.h>

#include <inttypes.h>
#include <string.h>

/* What etcdctl answers; it finds the server in its environment. */
static void ask(const char *command, char *answer, size_t room)
{
    FILE *pipe = popen(command, "r");
    size_t length = pipe == NULL ? 0 : fread(answer, 1, room - 1, pipe);

    if (pipe == NULL || pclose(pipe) != 0) {
        abort();
    }
    answer[length] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
}

/* A transaction: what is compared, and what is done then. */
static bool is_done(const char *compare, const char *then)
{
    char command[512], answer[256];

    snprintf(command, sizeof command,
             "printf '%%s\\n\\n%%s\\n\\n\\n' '%s' '%s' | etcdctl txn", compare,
             then);
    ask(command, answer, sizeof answer);
    return strcmp(answer, "SUCCESS") == 0;
}

/* --- by the last token --------------------------------------------------- */

/* In keys the name of a mutex is escaped as in a URL. */
static int write_by_token(uint64_t token, const char *text)
{
    char compare[128], then[128];

    snprintf(compare, sizeof compare,
             "value(\"simba/t/guarded%%20resource\") < \"%016" PRIx64 "o\"",
             token);
    snprintf(then, sizeof then, "put by-token \"%s\"", text);
    return is_done(compare, then) ? SIMBA_OK : SIMBA_ELOST;
}

static void read_by_token(char *text, size_t room)
{
    ask("etcdctl get --print-value-only by-token", text, room);
}

/* --- by a mark ----------------------------------------------------------- */

/* If the mark has changed meanwhile it is read again, and judged again. */
static int write_by_mark(uint64_t token, const char *text)
{
    char mark[SIMBA_GUARD_TEXT], seen[64], revision[32], compare[64], then[128];
    int rc;

    do {
        ask("etcdctl get mark -w fields | sed -n 's/\"ModRevision\" : //p'",
            revision, sizeof revision);
        ask("etcdctl get --print-value-only mark", seen, sizeof seen);
        rc = simba_guard_judge(seen, strlen(seen), token, NULL);
        simba_guard_format(token, mark);
        snprintf(compare, sizeof compare, "mod(\"mark\") = \"%s\"",
                 revision[0] == '\0' ? "0" : revision);
        snprintf(then, sizeof then, "put mark %s\nput by-mark \"%s\"", mark,
                 text);
    } while (rc == SIMBA_OK && !is_done(compare, then));
    return rc;
}

static void read_by_mark(char *text, size_t room)
{
    ask("etcdctl get --print-value-only by-mark", text, room);
}

const struct way ways[] = {
    {"test_guard_etcd_token__refuses_a_paused_owner", write_by_token,
     read_by_token},
    {"test_guard_etcd_mark__refuses_a_paused_owner", write_by_mark,
     read_by_mark},
    {NULL, NULL, NULL},
};
