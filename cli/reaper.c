/* Descendants by /proc: read who is whose child, mark what hangs below the
 * root, signal it.
 *
 * Process groups and sessions do not do: a descendant may leave both. Parents
 * can't be left: orphans go to the nearest subreaper, which is ours. */
#define _GNU_SOURCE
#include "cli/reaper.h"
#include "cli/clock.h"
#include "util/array.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long guardians below us are spared once KILL is due, also when nobody
 * else is left: time enough to give their mutexes back. Not in the last moment.
 */
enum { SPARE_MS = 1000, LAST_MS = 100 };

struct process {
    pid_t pid;
    pid_t parent;
    pid_t group;
    bool is_dead; /* a zombie */
    bool is_guardian;
    bool is_below;
    unsigned long long started; /* with pid, names one process for ever */
};

struct table {
    struct process *rows;
    size_t count;
    size_t room;
    bool is_short; /* for lack of memory */
    bool is_whole; /* of all processes, not only of children we were told of */
};

/* Another PID namespace's /proc (unshare --pid without --mount-proc) numbers
 * other processes than ours. */
bool simba__reaper_has_proc(void)
{
    char text[16];
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);

    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    return strtol(text, NULL, 10) == getpid();
}

static bool read_process(pid_t pid, struct process *process)
{
    char path[32], text[1024], state = 0;
    ssize_t length = -1;
    char *at;
    int file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        length = read(file, text, sizeof text - 1);
        (void)close(file);
    }
    text[length > 0 ? length : 0] = '\0';
    /* The name of a program may hold blanks and brackets: fields count from the
     * last one. Field 22, the start time, is the 20th after it. */
    at = strrchr(text, ')');
    *process = (struct process){.pid = pid};
    if (at == NULL ||
        // NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
        sscanf(at + 1,
               " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %*s %llu",
               &state, &process->parent, &process->group,
               &process->started) != 4) {
        return false;
    }
    process->is_dead = state == 'Z' || state == 'X';
    *at = '\0';
    at = strchr(text, '(');
    process->is_guardian =
        at != NULL && strcmp(at + 1, SIMBA__REAPER_GUARDIAN) == 0;
    return true;
}

static bool is_spared(const struct simba__reaper *reaper, pid_t pid)
{
    const pid_t *spared = reaper->spared;

    while (*spared != 0 && *spared != pid) {
        spared++;
    }
    return *spared != 0;
}

static void add(struct table *table, const struct process *process)
{
    if (simba__array_reserve(&table->rows, &table->room, table->count + 1,
                             sizeof *process)) {
        table->rows[table->count++] = *process;
    } else {
        table->is_short = true;
    }
}

static bool read_table(struct table *table)
{
    DIR *directory = simba__reaper_has_proc() ? opendir("/proc") : NULL;
    struct dirent *entry;
    struct process process;

    if (directory == NULL) {
        return false;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    while ((entry = readdir(directory)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process((pid_t)strtol(entry->d_name, NULL, 10), &process)) {
            add(table, &process);
        }
    }
    (void)closedir(directory);
    return table->count > 0;
}

/* --- the short way ------------------------------------------------------- */

/* The living children of each thread, as the kernel lists them. */
static void add_children(const struct simba__reaper *reaper,
                         struct table *table,
                         pid_t parent)
{
    char path[64];
    struct dirent *thread;
    struct process child;
    DIR *threads;
    FILE *file;
    int pid;

    (void)snprintf(path, sizeof path, "/proc/%d/task", parent);
    threads = opendir(path);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    while (threads != NULL && (thread = readdir(threads)) != NULL) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.16s/children",
                       parent, thread->d_name);
        file = thread->d_name[0] == '.' ? NULL : fopen(path, "re");
        // NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
        while (file != NULL && fscanf(file, "%d", &pid) == 1) {
            if (!is_spared(reaper, pid) && read_process(pid, &child)) {
                child.is_below = true;
                add(table, &child);
            }
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
}

/* --- the whole table ----------------------------------------------------- */

static bool is_parent_below(const struct table *table, pid_t parent)
{
    size_t i = 0;

    while (i < table->count && table->rows[i].pid != parent) {
        i++;
    }
    return i < table->count && table->rows[i].is_below;
}

/* Generation by generation, until one adds nobody. */
static void mark(struct table *table, const struct simba__reaper *reaper)
{
    bool has_more = true;

    while (has_more) {
        has_more = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *row = &table->rows[i];

            if (!row->is_below && !is_spared(reaper, row->pid) &&
                (row->parent == reaper->root ||
                 is_parent_below(table, row->parent))) {
                row->is_below = true;
                has_more = true;
            }
        }
    }
}

/* A pid may have got a new bearer since the table was read. The descriptor
 * names one process, and the start time tells that it is the one we mean. */
static void signal_process(const struct process *row, int signal)
{
    struct process again;
    int handle = (int)syscall(SYS_pidfd_open, row->pid, 0);

    assert(row->pid > 0); /* 0 and below are groups */
    if (handle < 0) {
        if (errno != ESRCH) {
            (void)kill(row->pid, signal); /* a kernel without pidfd */
        }
        return;
    }
    if (read_process(row->pid, &again) && again.started == row->started) {
        (void)syscall(SYS_pidfd_send_signal, handle, signal, NULL, 0);
        if (signal == SIGTERM) {
            /* One that is stopped would not notice. */
            (void)syscall(SYS_pidfd_send_signal, handle, SIGCONT, NULL, 0);
        }
    }
    (void)close(handle);
}

/* Those who have got it by their group are there, but need no more. Who did not
 * fit into the table may be one of ours. 0 also if only guardians are left, as
 * far as a table that is not whole can tell. */
static int signal_below(const struct simba__reaper *reaper,
                        const struct table *table,
                        int signal,
                        pid_t skipped)
{
    int64_t now_ms = simba__clock_ms();
    int guardians = 0, others = table->is_short ? 1 : 0;
    bool may_spare = signal == SIGKILL && now_ms < reaper->spare_most_ms;
    bool are_due;

    for (size_t i = 0; i < table->count; i++) {
        const struct process *row = &table->rows[i];

        guardians += row->is_below && !row->is_dead && row->is_guardian;
        others += row->is_below && !row->is_dead && !row->is_guardian;
    }
    are_due = !may_spare || (others == 0 && now_ms >= reaper->spare_ms);
    if (may_spare && are_due && !table->is_whole) {
        return 0;
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct process *row = &table->rows[i];

        if (row->is_below && !row->is_dead &&
            (skipped == 0 || row->group != skipped) &&
            (are_due || !row->is_guardian)) {
            signal_process(row, signal);
        }
    }
    return guardians + others;
}

int simba__reaper_signal(const struct simba__reaper *reaper,
                         int signal,
                         pid_t skipped)
{
    struct table table = {.count = 0};
    int found = 0;

    assert(reaper->root > 0 && signal > 0 && skipped >= 0);
    if (!simba__reaper_has_proc()) {
        return -1;
    }
    if (signal == SIGKILL || reaper->is_hurried) {
        /* From parent to child, so that what else runs on the machine costs
         * nothing. The kernel may leave one out while others come and go. */
        add_children(reaper, &table, reaper->root);
        for (size_t i = 0; i < table.count; i++) {
            add_children(reaper, &table, table.rows[i].pid);
        }
        found = signal_below(reaper, &table, signal, skipped);
        table.count = 0;
        table.is_short = false;
    }
    if (found == 0) {
        found = -1;
        if (read_table(&table)) {
            mark(&table, reaper);
            table.is_whole = true;
            found = signal_below(reaper, &table, signal, skipped);
        }
    }
    free(table.rows);
    return found;
}

void simba__reaper_spare(struct simba__reaper *reaper,
                         int64_t since_ms,
                         int64_t until_ms)
{
    reaper->spare_ms = since_ms + SPARE_MS;
    reaper->spare_most_ms = until_ms - LAST_MS;
}

pid_t simba__reaper_parent(pid_t pid)
{
    struct process process;

    return simba__reaper_has_proc() && read_process(pid, &process)
               ? process.parent
               : 0;
}

bool simba__reaper_is_anchored(pid_t group)
{
    struct table table = {.count = 0};
    bool is_anchored = false;

    (void)read_table(&table);
    for (size_t i = 0; i < table.count && !is_anchored; i++) {
        const struct process *row = &table.rows[i];

        is_anchored = row->group == group && !row->is_dead &&
                      getsid(row->parent) == getsid(0) &&
                      getpgid(row->parent) != group;
    }
    free(table.rows);
    return is_anchored;
}

void simba__reaper_spare_children(struct simba__reaper *reaper)
{
    struct table table = {.count = 0};
    size_t spared = 0;

    (void)read_table(&table);
    for (size_t i = 0; i < table.count && spared < SIMBA__REAPER_SPARED; i++) {
        if (table.rows[i].parent == reaper->root) {
            reaper->spared[spared++] = table.rows[i].pid;
        }
    }
    free(table.rows);
}
