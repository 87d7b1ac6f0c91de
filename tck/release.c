/* release: ends this very attempt, and nobody else's (S5, S8). */
#include "contender.h"
#include "topics.h"

static void mutex_is_free_at_once(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_release(a);
    EXPECT_FREE(b);
    EXPECT_GRANTED(b);
    EXPECT_OWNS(b);
}

static void other_owner_is_left_alone(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_release(b);
    EXPECT_OWNS(a);
    EXPECT(t, tck_renew(a)->mine);
}

/* A release that was delayed must not free the next tenure of its id. */
static void late_release_of_an_earlier_tenure_is_ignored(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *late = tck_contender(t, a->store);

    tck_as(late, a->id);
    EXPECT_GRANTED(late);
    tck_release(late);
    EXPECT_GRANTED(a);
    tck_release(late);
    EXPECT_OWNS(a);
    EXPECT(t, tck_renew(a)->mine);
}

static void repeating_it_does_no_harm(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_release(a);
    tck_release(a);
    EXPECT_GRANTED(b);
    tck_release(a);
    EXPECT_OWNS(b);
}

static void free_mutex_stays_free(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    tck_release(a);
    EXPECT_FREE(a);
    EXPECT_GRANTED(a);
}

static void tombstone_refuses_a_late_acquire(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    tck_undo(a, tck_lease_ms(&a->times));
    tck_release(a); /* a release without one takes none away */
    EXPECT(t, !tck_ask(a)->mine);
    EXPECT(t, !tck_try(a)->mine);
    EXPECT_FREE(a);
}

static void tombstone_ends_a_tenure_too(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_undo(a, tck_lease_ms(&a->times));
    EXPECT_FREE(a);
    EXPECT(t, !tck_ask(a)->mine);
    EXPECT_FREE(a);
}

static void tombstone_is_for_one_attempt(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_undo(a, tck_lease_ms(&a->times));
    EXPECT_GRANTED(b);
    tck_release(b);
    tck_begin_anew(a); /* the same id, started again */
    EXPECT_GRANTED(a);
}

static void tombstone_takes_no_position(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *late = tck_stranger(t);
    struct tck_contender *undone = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    EXPECT_GRANTED(a);
    tck_undo(late, tck_lease_ms(&a->times));
    EXPECT(t, !tck_ask(late)->mine);
    EXPECT_QUEUED(undone);
    tck_undo(undone, tck_lease_ms(&a->times));
    EXPECT_NUMBER(t, tck_count_line(a), 0);
    EXPECT_QUEUED(b);
    tck_release(a);
    EXPECT_GRANTED(b);
}

/* A late arrival may come at any time until the tombstone is over. */
static void tombstone_lasts_its_time(struct tck *t)
{
    enum { TOMBSTONE_MS = 1190 };
    struct tck_contender *a = tck_stranger(t);
    int64_t over = simba_loop_now_ms() + tck_at_least_ms(TOMBSTONE_MS);

    tck_undo(a, TOMBSTONE_MS);
    do {
        tck_sleep_until(simba_loop_now_ms() + 20);
        tck_try(a);
    } while (!a->reply.mine && simba_loop_now_ms() < over);
    EXPECT(t, !a->reply.mine || simba_loop_now_ms() >= over);
}

/* As many as nobody would set a limit to. */
enum { UNDONE = 20 };

static void tombstones_of_several(struct tck *t)
{
    simba_store *stores[2] = {tck_store(t), tck_store(t)};
    struct tck_contender *who[UNDONE];
    char other[40];

    for (int i = 0; i < UNDONE; i++) {
        who[i] = tck_contender(t, stores[i % 2]);
    }
    tck_fresh(other);
    tck_at(who[UNDONE - 1], other);
    for (int i = 0; i < UNDONE; i++) {
        tck_undo(who[i], tck_lease_ms(&who[i]->times));
    }
    for (int i = 0; i < UNDONE; i++) {
        EXPECT(t, !tck_try(who[i])->mine);
        EXPECT(t, !tck_ask(who[i])->mine);
    }
}

static void tombstone_outlives_a_tenure(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_undo(a, tck_lease_ms(&a->times));
    EXPECT_GRANTED(b);
    EXPECT(t, !tck_try(a)->mine);
    tck_release(b);
    EXPECT(t, !tck_ask(a)->mine);
    EXPECT_FREE(a);
}

static void position_in_the_queue_is_given_up_too(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);

    EXPECT_GRANTED(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    tck_release(b);
    tck_release(a);
    EXPECT_GRANTED(c);
}

static const struct tck_case cases[] = {
    {"release.mutex_is_free_at_once",
     "After the answer nobody owns the mutex, and the next to ask gets it.",
     mutex_is_free_at_once, TCK_QUICK | TCK_SAFETY},
    {"release.other_owner_is_left_alone",
     "Who does not own the mutex frees nothing.", other_owner_is_left_alone,
     TCK_QUICK | TCK_SAFETY},
    {"release.late_release_of_an_earlier_tenure_is_ignored",
     "A late release of an earlier tenure leaves the next one of the same id "
     "alone (S5).",
     late_release_of_an_earlier_tenure_is_ignored, TCK_QUICK | TCK_SAFETY},
    {"release.repeating_it_does_no_harm",
     "A release can be repeated, also when somebody else owns it by then.",
     repeating_it_does_no_harm, TCK_SAFETY},
    {"release.free_mutex_stays_free", "Releasing a free mutex is no error.",
     free_mutex_stays_free, 0},
    {"release.tombstone_refuses_a_late_acquire",
     "An attempt that was undone before it arrived is refused (S8).",
     tombstone_refuses_a_late_acquire, TCK_SAFETY},
    {"release.tombstone_ends_a_tenure_too",
     "Undoing frees the mutex if the attempt had it, and keeps it free (S8).",
     tombstone_ends_a_tenure_too, TCK_SAFETY},
    {"release.tombstone_is_for_one_attempt",
     "Others, and the next start of the same id, are not refused.",
     tombstone_is_for_one_attempt, TCK_SAFETY},
    {"release.tombstone_takes_no_position",
     "An undone attempt that asks again holds nobody up in the queue.",
     tombstone_takes_no_position, 0},
    {"release.tombstone_lasts_its_time",
     "An undone attempt is refused for as long as was asked for (S8).",
     tombstone_lasts_its_time, 0},
    {"release.tombstones_of_several",
     "Several attempts can be undone at a time: each is refused (S8).",
     tombstones_of_several, TCK_SAFETY},
    {"release.tombstone_outlives_a_tenure",
     "An undone attempt is refused also when somebody owned the mutex since "
     "(S8).",
     tombstone_outlives_a_tenure, TCK_SAFETY},
    {"release.position_in_the_queue_is_given_up_too",
     "A release by one who waits gives up the position in the queue.",
     position_in_the_queue_is_given_up_too, TCK_SAFETY},
};

const struct tck_topic tck_topic_release = TCK_TOPIC(cases);
