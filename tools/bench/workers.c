/* Who is measured beside this thread: other processes, and crews of threads. */
#define _GNU_SOURCE
#include "bench/bench.h"
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { END_MOST_MS = 3000, LOOK_UP_MS = 100 };

/* --- another process ----------------------------------------------------- */

static _Noreturn void be_child(const int down[2],
                               const int up[2],
                               void (*live)(const struct simba__bench_job *job,
                                            struct simba__bench_child *self),
                               const struct simba__bench_job *job)
{
    struct simba__bench_child self = {.in = down[0], .out = up[1]};

    (void)close(down[1]);
    (void)close(up[0]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    simba__interrupt_ignore(); /* the parent sees to us */
    live(job, &self);
    _exit(0);
}

int simba__bench_child_start(struct simba__bench_child *child,
                             void (*live)(const struct simba__bench_job *job,
                                          struct simba__bench_child *self),
                             const struct simba__bench_job *job,
                             simba_error *error)
{
    int down[2], up[2];

    (void)signal(SIGPIPE, SIG_IGN); /* one that died is heard of */
    memset(child, 0, sizeof *child);
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno, "pipe: %s",
                               strerror(errno));
    }
    child->pid = fork();
    if (child->pid == 0) {
        be_child(down, up, live, job);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    child->in = up[0];
    child->out = down[1];
    if (child->pid < 0) {
        return simba_error_set(error, SIMBA_EINTERNAL, errno, "fork: %s",
                               strerror(errno));
    }
    return SIMBA_OK;
}

static void close_pipes(struct simba__bench_child *child)
{
    if (child->out > 0) {
        (void)close(child->out);
        (void)close(child->in);
    }
    child->in = child->out = 0;
}

void simba__bench_child_kill(struct simba__bench_child *child)
{
    if (child->pid > 0) {
        (void)kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    child->pid = 0;
    close_pipes(child);
}

/* It may sleep in a store that sends no wake-up any more. */
void simba__bench_child_end(struct simba__bench_child *child)
{
    int64_t until_ns = simba__bench_now_ns() + END_MOST_MS * INT64_C(1000000);
    struct timespec pause = {0, 1000000};

    close_pipes(child);
    while (child->pid > 0 && simba__bench_now_ns() < until_ns) {
        if (waitpid(child->pid, NULL, WNOHANG) == child->pid) {
            child->pid = 0;
        } else {
            (void)nanosleep(&pause, NULL);
        }
    }
    simba__bench_child_kill(child);
}

bool simba__bench_tell(int fd, const void *what, size_t size)
{
    return write(fd, what, size) == (ssize_t)size;
}

/* A signal may come right before we wait, and then it does not wake us. */
static bool await_answer(int fd)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};

    while (simba__interrupt() == 0) {
        if (poll(&in, 1, LOOK_UP_MS) > 0) {
            return true;
        }
    }
    return false;
}

int simba__bench_hear(int fd, void *what, size_t size, simba_error *error)
{
    size_t heard = 0;
    ssize_t length;

    assert(fd > 0 && size > 0);
    do {
        if (!await_answer(fd)) {
            return simba__bench_cancel(error);
        }
        length = read(fd, (char *)what + heard, size - heard);
        heard += length > 0 ? (size_t)length : 0;
    } while (heard < size && (length > 0 || (length < 0 && errno == EINTR)));
    if (heard < size) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0,
                               "another process of the bench has died");
    }
    return SIMBA_OK;
}

/* --- many threads -------------------------------------------------------- */

struct simba__crew_member {
    struct simba__crew *crew;
    const struct simba__bench_side *side;
    struct simba__bench_times times;
    pthread_t thread;
    size_t index;
};

void simba__bench_note_time(struct simba__bench_times *times, int64_t ns)
{
    if (times->room > 0) {
        times->ns[times->done % times->room] = ns > 0 ? ns : 1;
    }
    times->done++;
}

/* Until the time or the exchanges of the slice are used up. */
static int work(struct simba__crew_member *m, size_t *count, simba_error *error)
{
    struct simba__crew *crew = m->crew;
    int rc = SIMBA_OK;

    while (rc == SIMBA_OK && simba__interrupt() == 0 &&
           simba__bench_now_ns() < crew->until_ns &&
           atomic_fetch_sub(&crew->left, 1) > 0) {
        int64_t ns = 0;

        rc = m->side->once(m->side->self, &ns, error);
        if (rc == SIMBA_OK) {
            simba__bench_note_time(&m->times, ns);
            *count += 1;
        }
    }
    return rc;
}

/* With the lock held, but for the work. */
static void take_part(struct simba__crew_member *m)
{
    struct simba__crew *crew = m->crew;
    simba_error error = {0};
    size_t count = 0;
    int rc;

    pthread_mutex_unlock(&crew->lock);
    rc = work(m, &count, &error);
    pthread_mutex_lock(&crew->lock);
    crew->tally.count += count;
    if (rc != SIMBA_OK && crew->tally.rc == SIMBA_OK) {
        crew->tally.rc = rc;
        crew->tally.error = error;
    }
    assert(crew->working > 0);
    if (--crew->working == 0) {
        pthread_cond_signal(&crew->ended);
    }
}

static void *run_member(void *argument)
{
    struct simba__crew_member *m = argument;
    struct simba__crew *crew = m->crew;
    uint64_t seen = 0;

    pthread_mutex_lock(&crew->lock);
    while (!crew->is_over) {
        if (seen == crew->slices) {
            pthread_cond_wait(&crew->begun, &crew->lock);
            continue;
        }
        seen = crew->slices;
        if (m->index < crew->slice.active) {
            take_part(m);
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

int simba__crew_start(struct simba__crew *crew, simba_error *error)
{
    assert(crew->count > 0 && crew->members == NULL);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begun, NULL);
    pthread_cond_init(&crew->ended, NULL);
    crew->members = calloc(crew->count, sizeof *crew->members);
    if (crew->members == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    for (size_t i = 0; i < crew->count; i++) {
        struct simba__crew_member *m = &crew->members[i];

        m->crew = crew;
        m->side = &crew->sides[i];
        m->index = i;
        m->times.room = crew->room / crew->count;
        m->times.ns = crew->ns + i * m->times.room;
        if (pthread_create(&m->thread, NULL, run_member, m) != 0) {
            break;
        }
        crew->started++;
    }
    if (crew->started < crew->count) {
        return simba_error_set(error, SIMBA_EINTERNAL, 0,
                               "no more than %zu threads", crew->started);
    }
    return SIMBA_OK;
}

void simba__crew_run(struct simba__crew *crew,
                     const struct simba__crew_slice *slice,
                     struct simba__crew_tally *tally)
{
    int64_t begun_ns = simba__bench_now_ns();

    assert(slice->active > 0 && slice->active <= crew->started);
    assert(crew->working == 0);
    pthread_mutex_lock(&crew->lock);
    crew->slice = *slice;
    crew->until_ns = begun_ns + slice->length_ns;
    atomic_store(&crew->left, (int64_t)slice->most);
    crew->tally = (struct simba__crew_tally){.rc = SIMBA_OK};
    crew->working = slice->active;
    crew->slices++;
    pthread_cond_broadcast(&crew->begun);
    while (crew->working > 0) {
        pthread_cond_wait(&crew->ended, &crew->lock);
    }
    crew->tally.elapsed_ns = simba__bench_now_ns() - begun_ns;
    *tally = crew->tally;
    pthread_mutex_unlock(&crew->lock);
}

void simba__crew_stop(struct simba__crew *crew)
{
    if (crew->members == NULL) {
        return;
    }
    pthread_mutex_lock(&crew->lock);
    crew->is_over = true;
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->lock);
    for (size_t i = 0; i < crew->started; i++) {
        pthread_join(crew->members[i].thread, NULL);
    }
    free(crew->members);
    crew->members = NULL;
    pthread_cond_destroy(&crew->begun);
    pthread_cond_destroy(&crew->ended);
    pthread_mutex_destroy(&crew->lock);
}

size_t simba__crew_gather(int64_t *ns, size_t room)
{
    size_t count = 0;

    for (size_t i = 0; i < room; i++) {
        if (ns[i] != 0) {
            ns[count++] = ns[i];
        }
    }
    return count;
}
