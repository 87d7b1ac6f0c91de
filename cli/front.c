/* The front: the process the user started. It starts the guardian, passes on
 * signals, and answers with the exit code. */
#define _GNU_SOURCE
#include "cli/front.h"
#include "cli/clock.h"
#include "cli/output.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The guardian's limit for leaving the queue, and then some. */
enum { CANCEL_MOST_MS = 2000 };

/* --- setting up ---------------------------------------------------------- */

static bool start_guardian(struct simba__front *front)
{
    void *page = mmap(NULL, sizeof *front->share, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];

    assert(front->share == NULL && front->job->front == getpid());
    if (page == MAP_FAILED ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   ends) != 0) {
        return false;
    }
    front->share = front->job->share = page;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    front->guardian = fork();
    if (front->guardian == 0) {
        (void)close(ends[0]);
        simba__guardian_run(front->job, ends[1]);
    }
    (void)close(ends[1]);
    front->link = ends[0];
    return front->guardian > 0;
}

/* stdin and stdout are CMD's alone: with our copies open, its neighbours in a
 * pipeline would not see it close them. */
static bool open_sources(struct simba__front *front)
{
    int tty = front->job->tty < 0 ? front->link : front->job->tty;
    unsigned low = (unsigned)(front->link < tty ? front->link : tty);
    unsigned high = (unsigned)(front->link < tty ? tty : front->link);
    sigset_t all;

    assert(low > STDERR_FILENO);
    /* Whatever else we inherited is CMD's too. */
    (void)close_range(STDERR_FILENO + 1, low - 1, 0);
    (void)close_range(low + 1, high - 1, 0);
    (void)close_range(high + 1, ~0U, 0);
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)sigfillset(&all);
    front->signals = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    front->timer = simba__clock_timer();
    return front->signals >= 0 && front->timer >= 0;
}

/* --- events -------------------------------------------------------------- */

static void on_note(struct simba__front *front, const struct simba__note *note)
{
    struct simba__note anchored = {.kind = SIMBA__NOTE_ANCHORED,
                                   .number = note->number};

    simba__systemd_note(front, note);
    switch (note->kind) {
    case SIMBA__NOTE_BORN:
        /* The CMD before has ended, also if the note of that was lost. */
        if (front->anchored != note->number) {
            simba__terminal_leave(front, 0);
            front->anchored = note->number;
        }
        if (front->job->is_anchor_first) {
            simba__terminal_anchor(front);
        }
        simba__link_send(front->link, &anchored, -1);
        return;
    case SIMBA__NOTE_STOPPED:
        if (note->seen >= front->resumes) {
            simba__terminal_on_stopped(front, note->number);
        }
        return;
    case SIMBA__NOTE_ACQUIRED:
        front->was_acquired = true;
        break;
    case SIMBA__NOTE_STARTED:
        front->cancelled = 0; /* what came, came to CMD */
        break;
    case SIMBA__NOTE_ENDED:
        simba__terminal_leave(front, note->number);
        break;
    case SIMBA__NOTE_KEPT: /* CMD is gone: Ctrl-C is for us */
        simba__terminal_leave(front, atomic_load(&front->share->exit_code));
        break;
    default:
        break;
    }
    simba__events_tell(front, note);
}

void simba__front_send_signal(const struct simba__front *front, int number)
{
    struct simba__note note = {
        .kind = SIMBA__NOTE_SIGNAL, .number = number, .seen = front->resumes};

    assert(number > 0);
    simba__link_send(front->link, &note, -1);
}

static void on_signal(struct simba__front *front, int number)
{
    int phase = atomic_load(&front->share->phase);
    bool is_alone = phase == SIMBA__WAITING || phase == SIMBA__IDLE;
    bool is_stop = number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
    struct sigaction action;

    if (number == SIGCHLD) {
        return; /* the guardian's end is seen on the link */
    }
    if (number == SIGCONT) {
        simba__terminal_on_continued(front);
        return;
    }
    /* Nobody but us is there yet to be signalled: do what the signal does to
     * any program. */
    if (is_alone && sigaction(number, NULL, &action) == 0 &&
        action.sa_handler == SIG_IGN) {
        return;
    }
    if (is_stop && !is_alone) {
        simba__terminal_anchor(front);
    }
    simba__front_send_signal(front, number);
    if (is_stop && is_alone) {
        simba__terminal_sleep(front, front->job->front, number);
        simba__terminal_on_continued(front);
    } else if (is_alone && simba__job_is_ended_by(front->job, number) &&
               front->cancelled == 0) {
        front->cancelled = number;
        simba__systemd_end(front);
        front->cancel_until_ms = simba__clock_ms() + CANCEL_MOST_MS;
    }
}

static void wait_for_events(struct simba__front *front)
{
    struct pollfd sources[] = {{.fd = front->link, .events = POLLIN},
                               {.fd = front->signals, .events = POLLIN},
                               {.fd = front->timer, .events = POLLIN}};
    struct signalfd_siginfo info;
    struct simba__note note = {0};
    int descriptor, rc = 0;
    int64_t feed_ms = simba__systemd_next(front);
    int64_t at_ms = simba__watch_next(front);

    at_ms = feed_ms < at_ms ? feed_ms : at_ms;
    if (at_ms != front->armed_ms) {
        simba__clock_arm(front->timer, at_ms);
        front->armed_ms = at_ms;
    }
    if (poll(sources, 3, -1) <= 0) {
        return;
    }
    if (sources[2].revents != 0) {
        simba__clock_calm(front->timer);
        front->armed_ms = 0;
    }
    if (sources[1].revents != 0) {
        while (read(front->signals, &info, sizeof info) == sizeof info) {
            on_signal(front, (int)info.ssi_signo);
        }
    }
    while (sources[0].revents != 0 &&
           (rc = simba__link_receive(front->link, &note, &descriptor)) > 0) {
        front->life = descriptor >= 0 ? descriptor : front->life;
        on_note(front, &note);
    }
    if (rc < 0) {
        while (waitpid(front->guardian, NULL, 0) < 0 && errno == EINTR) {
        }
        front->is_guardian_gone = true;
    }
}

int simba__front_run(struct simba__job *job)
{
    struct simba__front front = {
        .job = job, .life = -1, .armed_ms = SIMBA__CLOCK_NEVER};
    struct simba__note note = {.kind = SIMBA__NOTE_LOG,
                               .number = SIMBA_LOG_WARN,
                               .boot_ms = simba__clock_ms()};
    struct sigaction action;
    sigset_t all;
    siginfo_t info;
    int code = -1;

    front.reaper.root = job->front = getpid();
    /* No disposition is changed, so CMD inherits what we inherited. The one
     * exception is SIGCHLD, which might be ignored, and then children vanish.
     */
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &job->mask);
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    (void)sigaction(SIGCHLD, &action, &job->old_sigchld);
    simba__terminal_find(&front);
    /* Whoever started us by exec may have left us its children. They are none
     * of our business. */
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        simba__reaper_spare_children(&front.reaper);
    }
    if (!simba__reaper_has_proc()) {
        /* It cannot be helped, but nobody shall rely on it. */
        (void)snprintf(note.text, sizeof note.text,
                       "there is no /proc of this PID namespace: what leaves "
                       "the process group of %.80s cannot be ended; mount one",
                       job->argv[0]);
        simba__events_tell(&front, &note);
    }
    simba__systemd_begin(&front);
    if (!start_guardian(&front) || !open_sources(&front)) {
        simba__say("cannot start: %s", strerror(errno));
        return SIMBA__EXIT_FAULT; /* a guardian sees our end */
    }
    while (code < 0) {
        wait_for_events(&front);
        simba__systemd_feed(&front);
        code = simba__watch_guardian(&front);
        if (front.is_guardian_gone && code < 0) {
            code = atomic_load(&front.share->exit_code);
        }
    }
    simba__systemd_end(&front);
    simba__terminal_leave(&front, code);
    return code;
}
