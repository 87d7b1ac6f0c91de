/* lifecycle: a service starts, stops, starts again; handles come and go. */
#include "child.h"
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <fcntl.h>
#include <sys/stat.h>

static void service_goes_through_its_statuses(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    tck_open(w, tck_store(t));
    EXPECT_NUMBER(t, simba_service_status(w->service), SIMBA_INITIAL);
    tck_start(w);
    EXPECT(t, simba_service_status(w->service) != SIMBA_INITIAL);
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    AWAIT(t, atomic_load(&w->acquired) == 1);
    tck_stop(w);
    EXPECT_NUMBER(t, simba_service_status(w->service), SIMBA_INITIAL);
    EXPECT_NUMBER(t, atomic_load(&w->released), 1);
    EXPECT_ORDERLY(w);
}

static void nothing_happens_before_start(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *b = tck_stranger(t);

    tck_open(w, tck_store(t));
    EXPECT(t, !simba_service_is_owner(w->service));
    EXPECT_NUMBER(t, simba_service_token(w->service), 0);
    EXPECT_GRANTED(b);
    EXPECT_NUMBER(t, atomic_load(&w->acquired), 0);
}

static void restart_begins_a_new_tenure(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    tck_open(w, tck_store(t));
    for (int i = 1; i <= 3; i++) {
        tck_start(w);
        AWAIT(t, atomic_load(&w->acquired) == i);
        tck_stop(w);
        EXPECT_NUMBER(t, atomic_load(&w->released), i);
    }
    EXPECT_ORDERLY(w); /* so the tokens grew */
}

static void second_start_is_misuse(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    tck_contend(w, tck_store(t));
    EXPECT_STATUS(t, simba_service_start(w->service, NULL), SIMBA_EMISUSE);
    AWAIT(t, atomic_load(&w->acquired) == 1);
    EXPECT_STATUS(t, simba_service_start(w->service, NULL), SIMBA_EMISUSE);
    EXPECT(t, simba_service_is_owner(w->service));
}

static void stop_without_start_is_fine(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    tck_open(w, tck_store(t));
    EXPECT_STATUS(t, simba_service_stop(w->service, NULL), SIMBA_OK);
    tck_start(w);
    AWAIT(t, atomic_load(&w->acquired) == 1);
    tck_stop(w);
    tck_stop(w);
    EXPECT_NUMBER(t, atomic_load(&w->released), 1);
}

static void stop_frees_the_mutex(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *b = tck_stranger(t);

    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->acquired) == 1);
    tck_stop(w);
    EXPECT(t, !simba_service_is_owner(w->service));
    EXPECT_FREE(b);
    EXPECT_GRANTED(b);
}

static void close_frees_the_mutex(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *b = tck_stranger(t);

    tck_contend(w, tck_store(t));
    AWAIT(t, atomic_load(&w->acquired) == 1);
    tck_close(w);
    EXPECT_NUMBER(t, atomic_load(&w->released), 1);
    EXPECT_FREE(b);
    EXPECT_GRANTED(b);
}

static void stop_while_waiting_leaves_the_queue(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    struct tck_witness *w = tck_witness(t);

    EXPECT_GRANTED(a);
    tck_contend(w, tck_store(t));
    AWAIT(t, simba_service_status(w->service) == SIMBA_RUNNING);
    AWAIT(t, !tck_ask(c)->is_head); /* somebody stands before it */
    tck_stop(w);
    EXPECT_QUEUED(c);
    EXPECT(t, c->reply.is_head);
    EXPECT_NUMBER(t, atomic_load(&w->acquired), 0);
}

/* A stop that comes before the first answer leaves nothing behind. */
static void stop_right_after_start_leaves_nothing(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    struct tck_contender *b = tck_stranger(t);

    tck_open(w, tck_store(t));
    for (int i = 0; i < 10; i++) {
        tck_start(w);
        tck_stop(w);
        EXPECT_NUMBER(t, atomic_load(&w->acquired), atomic_load(&w->released));
    }
    AWAIT(t, tck_ask(b)->mine);
    EXPECT_ORDERLY(w);
}

static void handles_share_their_mutexes(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b;

    EXPECT_GRANTED(a);
    b = tck_stranger(t); /* opened later */
    EXPECT_QUEUED(b);
    EXPECT_TEXT(t, b->reply.owner.id, a->id);
}

static void lease_too_short_is_refused(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);
    simba_store *store = tck_store(t);
    simba_error error;

    w->contender.times.ttl_ms = 99;
    w->contender.times.transition_ms = 0;
    EXPECT_STATUS(t,
                  simba_service_open(store, &w->contender, &w->service, &error),
                  SIMBA_EINVAL);
    w->contender.times.ttl_ms = t->ops.least_lease_ms - 1;
    EXPECT_STATUS(t,
                  simba_service_open(store, &w->contender, &w->service, &error),
                  SIMBA_EINVAL);
    EXPECT(t, error.message[0] != '\0');
}

/* The child has the parent's handle in its memory, and must not use it. */
static struct {
    simba_locker *locker;
} inherited;

static void use_what_is_not_yours(struct tck *t, struct tck_child *self)
{
    (void)self;
    EXPECT(t, !simba_locker_is_owner(inherited.locker));
    EXPECT_STATUS(t, simba_locker_acquire(inherited.locker, 0, NULL, NULL),
                  SIMBA_EFORKED);
    EXPECT_STATUS(t, simba_locker_release(inherited.locker, NULL),
                  SIMBA_EFORKED);
}

static void forked_child_owns_nothing(struct tck *t)
{
    struct tck_child *child;

    inherited.locker = tck_locker(t, tck_store(t));
    EXPECT_STATUS(t, simba_locker_acquire(inherited.locker, 10000, NULL, NULL),
                  SIMBA_OK);
    child = tck_child(t, use_what_is_not_yours);
    tck_child_join(t, child);
    EXPECT(t, simba_locker_is_owner(inherited.locker));
    EXPECT(t, !tck_try(tck_stranger(t))->mine);
    EXPECT_STATUS(t, simba_locker_release(inherited.locker, NULL), SIMBA_OK);
}

/* --- descriptors --------------------------------------------------------- */

enum { DESCRIPTORS = 1024 };

/* Which are open: of sockets, files and pipes; and what they are. */
static void look_at_descriptors(ino_t *open)
{
    struct stat what;

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        open[fd] =
            fstat(fd, &what) == 0 && !S_ISCHR(what.st_mode) && what.st_ino != 0
                ? what.st_ino
                : 0;
    }
}

static struct {
    ino_t before[DESCRIPTORS], open[DESCRIPTORS], now[DESCRIPTORS];
} descriptors;

static bool is_the_stores(int fd)
{
    return descriptors.open[fd] != descriptors.before[fd] &&
           descriptors.now[fd] == descriptors.open[fd];
}

static void expect_no_socket(struct tck *t, struct tck_child *self)
{
    struct stat what;

    (void)self;
    look_at_descriptors(descriptors.now);
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        EXPECT(t, !is_the_stores(fd) || fstat(fd, &what) != 0 ||
                      !S_ISSOCK(what.st_mode));
    }
}

/* A client library may mark what it opens a moment later. */
static bool are_closed_on_exec(void)
{
    int fd = 0;

    look_at_descriptors(descriptors.now);
    while (fd < DESCRIPTORS &&
           (!is_the_stores(fd) || (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0)) {
        fd++;
    }
    return fd == DESCRIPTORS;
}

static void descriptors_are_its_own(struct tck *t)
{
    struct tck_contender *a, *b;

    tck_gone(tck_stranger(t)); /* what is opened once and for all */
    look_at_descriptors(descriptors.before);
    a = tck_stranger(t);
    EXPECT_GRANTED(a);
    b = tck_contender(t, a->store);
    EXPECT_QUEUED(b);
    look_at_descriptors(descriptors.open);
    AWAIT(t, are_closed_on_exec());
    tck_child_join(t, tck_child(t, expect_no_socket));
    tck_leave(b);
    tck_release(a);
    b->store = NULL;
    tck_gone(a);
    look_at_descriptors(descriptors.now);
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        EXPECT(t, !is_the_stores(fd));
    }
}

static const struct tck_case cases[] = {
    {"lifecycle.service_goes_through_its_statuses",
     "A service is INITIAL, STARTING, RUNNING, STOPPING and INITIAL again.",
     service_goes_through_its_statuses, TCK_QUICK},
    {"lifecycle.nothing_happens_before_start",
     "A service that was not started takes nothing and calls nobody.",
     nothing_happens_before_start, 0},
    {"lifecycle.restart_begins_a_new_tenure",
     "A service can be started again, and gets a greater token.",
     restart_begins_a_new_tenure, TCK_SAFETY},
    {"lifecycle.second_start_is_misuse",
     "Starting what is started is misuse, and does it no harm.",
     second_start_is_misuse, 0},
    {"lifecycle.stop_without_start_is_fine",
     "Stopping what is not started is no error.", stop_without_start_is_fine,
     TCK_SAFETY},
    {"lifecycle.stop_frees_the_mutex",
     "When stop has returned, another gets the mutex at once.",
     stop_frees_the_mutex, TCK_QUICK},
    {"lifecycle.close_frees_the_mutex",
     "When close has returned, another gets the mutex at once.",
     close_frees_the_mutex, 0},
    {"lifecycle.stop_while_waiting_leaves_the_queue",
     "A service that is stopped while it waits leaves the queue.",
     stop_while_waiting_leaves_the_queue, 0},
    {"lifecycle.stop_right_after_start_leaves_nothing",
     "A stop right behind the start leaves neither owner nor callback behind.",
     stop_right_after_start_leaves_nothing, 0},
    {"lifecycle.handles_share_their_mutexes",
     "A handle opened later sees who owns a mutex.",
     handles_share_their_mutexes, 0},
    {"lifecycle.lease_too_short_is_refused",
     "A lease shorter than the store can keep is refused with a reason.",
     lease_too_short_is_refused, 0},
    {"lifecycle.descriptors_are_its_own",
     "Those of a handle are close-on-exec, its connections are closed in a "
     "forked child, and none is left when it is closed (S12).",
     descriptors_are_its_own, 0},
    {"lifecycle.forked_child_owns_nothing",
     "A forked child is refused the handle of its parent, which keeps what it "
     "owns (S12).",
     forked_child_owns_nothing, 0},
};

const struct tck_topic tck_topic_lifecycle = TCK_TOPIC(cases);
