/* names: the same names and ids work, or are refused, on every store (S14). */
#include "contender.h"
#include "topics.h"
#include "witness.h"

#include <stdio.h>
#include <string.h>

/* Two names that a careless store takes for one are two mutexes. */
static void expect_apart(struct tck *t, const char *one, const char *other)
{
    simba_store *store = tck_store(t);
    struct tck_contender *a = tck_contender(t, store);
    struct tck_contender *b = tck_contender(t, store);

    tck_at(a, one);
    tck_at(b, other);
    EXPECT_GRANTED(a);
    EXPECT_GRANTED(b);
    EXPECT_OWNS(a);
    EXPECT_OWNS(b);
    tck_release(a);
    EXPECT_FREE(a);
    EXPECT_OWNS(b);
    tck_release(b);
}

/* The test's name with something behind it. */
static const char *with(struct tck *t, const char *ending)
{
    char *name = tck_alloc(t, SIMBA_MUTEX_MAX_BYTES + 1);

    snprintf(name, SIMBA_MUTEX_MAX_BYTES + 1, "%s%s", t->mutex, ending);
    return name;
}

static void case_matters(struct tck *t)
{
    expect_apart(t, with(t, "job"), with(t, "Job"));
    expect_apart(t, with(t, "\xc3\xa4"), with(t, "\xc3\x84")); /* a umlaut */
}

static void spaces_at_the_end_matter(struct tck *t)
{
    expect_apart(t, with(t, ""), with(t, " "));
    expect_apart(t, with(t, "x "), with(t, "x  "));
}

static void spaces_at_the_front_matter(struct tck *t)
{
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%*s%s", i + 1, "", t->mutex);
        expect_apart(t, name + 1, name);
    }
}

static void accents_are_compared_by_bytes(struct tck *t)
{
    expect_apart(t, with(t, "e"), with(t, "\xc3\xa9"));
    expect_apart(t, with(t, "\xc3\xa9"), with(t, "e\xcc\x81"));
    expect_apart(t, with(t, "\xc3\x9f"), with(t, "ss"));
}

static void one_may_begin_like_another(struct tck *t)
{
    expect_apart(t, with(t, "a"), with(t, "a/b"));
    expect_apart(t, with(t, "a"), with(t, "a:b"));
    expect_apart(t, with(t, "a/"), with(t, "a//"));
}

static void patterns_match_only_themselves(struct tck *t)
{
    expect_apart(t, with(t, "a_c"), with(t, "abc"));
    expect_apart(t, with(t, "%"), with(t, "x"));
    expect_apart(t, with(t, "*"), with(t, "y"));
    expect_apart(t, with(t, "%2F"), with(t, "/"));
}

/* Owned, watched, waited for and passed on under this name. */
static void expect_works(struct tck *t, const char *name)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);

    tck_at(a, name);
    tck_at(b, name);
    EXPECT_GRANTED(a);
    EXPECT_OWNS(a);
    EXPECT_QUEUED(b);
    EXPECT_TEXT(t, b->reply.owner.id, a->id);
    EXPECT(t, tck_renew(a)->mine);
    tck_release(a);
    EXPECT_GRANTED(b);
    tck_release(b);
}

static void odd_characters_work(struct tck *t)
{
    static const char *const odd[] = {
        "/",  "{",  "{}", "%",  ":", "'", "\"", " ",   "\\",           "..",
        "//", "?#", "*",  "$1", "`", ";", "--", "|&<", "\xe2\x82\xac",
    };
    char unique[40];

    tck_fresh(unique);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char name[SIMBA_MUTEX_MAX_BYTES + 1];

        /* In front, in the middle and behind. */
        snprintf(name, sizeof name, "%s%.16s%s%.8s%s", odd[i], unique, odd[i],
                 unique, odd[i]);
        expect_works(t, name);
    }
}

/* 66 characters of four bytes: 264 bytes. */
static void make_longest_name(char *name)
{
    char *end = name;
    char unique[40];

    tck_fresh(unique);
    for (int i = 0; i < SIMBA_MUTEX_MAX; i++) {
        /* One of U+1F600 to U+1F61F, by the digits of the unique name. */
        *end++ = '\xf0';
        *end++ = '\x9f';
        *end++ = '\x98';
        *end++ = (char)(0x80 + (unique[i % 32] & 0x1f));
    }
    *end = '\0';
}

static void longest_name_works(struct tck *t)
{
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    make_longest_name(name);
    expect_works(t, name);
}

enum { WAKING = 6 };

/* A store that escapes names must say the right one when it wakes. */
static void odd_ones_are_woken_too(struct tck *t)
{
    static const char *const odd[WAKING - 1] = {"/a//b", "%2F%", " {x}:'\"\\ ",
                                                "*?[a]", "\xc3\xa9"};
    simba_store *store = tck_store(t);
    struct tck_contender *owners[WAKING];
    struct tck_witness *w[WAKING];
    char name[SIMBA_MUTEX_MAX_BYTES + 1];

    for (int i = 0; i < WAKING; i++) {
        if (i == WAKING - 1) {
            make_longest_name(name);
        } else {
            snprintf(name, sizeof name, "%s%.24s%s", odd[i], t->mutex + 4,
                     odd[i]);
        }
        owners[i] = tck_stranger(t);
        tck_at(owners[i], name);
        EXPECT_GRANTED(owners[i]);
        w[i] = tck_witness(t);
        w[i]->contender.mutex = owners[i]->mutex;
        tck_contend(w[i], store);
    }
    for (int i = 0; i < WAKING; i++) {
        AWAIT(t, tck_count_line(owners[i]) == 1);
        tck_release(owners[i]);
        AWAIT(t, atomic_load(&w[i]->acquired) == 1);
    }
}

/* Who cuts them takes them for one. */
static void last_byte_matters(struct tck *t)
{
    char one[SIMBA_MUTEX_MAX_BYTES + 1];
    char other[SIMBA_MUTEX_MAX_BYTES + 1];

    make_longest_name(one);
    memcpy(other, one, sizeof other);
    other[SIMBA_MUTEX_MAX_BYTES - 1] ^= 1;
    expect_apart(t, one, other);
}

static void shortest_name_is_accepted(struct tck *t)
{
    struct tck_witness *w = tck_witness(t);

    w->contender.mutex = "x"; /* others may use it: it is not started */
    tck_open(w, tck_store(t));
}

/* --- refused ------------------------------------------------------------- */

static void ignore_change(void *user, const simba_state *state)
{
    (void)user;
    (void)state;
}

static void expect_refused(struct tck *t, simba_store *store, const char *name)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    simba_service *service;
    simba_locker *locker;
    simba_retrieval *retrieval;
    simba_error error = {0};

    contender.mutex = options.mutex = retriever.mutex = name;
    retriever.on_changed = ignore_change;
    EXPECT_STATUS(t, simba_service_open(store, &contender, &service, &error),
                  SIMBA_EINVAL);
    EXPECT(t, error.message[0] != '\0' && service == NULL);
    EXPECT_STATUS(t, simba_locker_open(store, &options, &locker, NULL),
                  SIMBA_EINVAL);
    EXPECT_STATUS(t, simba_retrieval_open(store, &retriever, &retrieval, NULL),
                  SIMBA_EINVAL);
}

static void bad_names_are_refused(struct tck *t)
{
    static const char *const bad[] = {
        "",
        "}x",
        "a\nb",
        "tab\there",
        "\x7f",
        "\xc2\x80",
        "\xff",
        "cut \xe2\x82",
        "\xc0\xaf",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
    };
    simba_store *store = tck_store(t);
    char name[SIMBA_MUTEX_MAX + 2];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_refused(t, store, bad[i]);
    }
    memset(name, 'x', sizeof name);
    name[SIMBA_MUTEX_MAX + 1] = '\0';
    expect_refused(t, store, name);
    expect_refused(t, store, NULL);
}

static void expect_id_refused(struct tck *t, simba_store *store, const char *id)
{
    simba_contender contender = SIMBA_CONTENDER_INIT;
    simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_service *service;
    simba_locker *locker;

    contender.mutex = options.mutex = t->mutex;
    contender.id = options.id = id;
    EXPECT_STATUS(t, simba_service_open(store, &contender, &service, NULL),
                  SIMBA_EINVAL);
    EXPECT_STATUS(t, simba_locker_open(store, &options, &locker, NULL),
                  SIMBA_EINVAL);
}

static void bad_ids_are_refused(struct tck *t)
{
    static const char *const bad[] = {"",     "a@@b", "@@",  "a@",
                                      "a\nb", "\x7f", "\xff"};
    simba_store *store = tck_store(t);
    char id[SIMBA_ID_MAX + 2];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_id_refused(t, store, bad[i]);
    }
    memset(id, 'x', sizeof id);
    id[SIMBA_ID_MAX + 1] = '\0';
    expect_id_refused(t, store, id);
}

/* --- ids ----------------------------------------------------------------- */

static void ids_are_told_as_given(struct tck *t)
{
    static const char *const odd[] = {
        "a",  "A",   "a ",       " a",        "0:1@host", "@a", "'\"\\", "{}",
        "%s", "a/b", "\xc3\xa9", "e\xcc\x81", "NULL",     "-1", "*",
    };
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *reader = tck_stranger(t);

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        tck_begin_anew(a);
        tck_as(a, odd[i]);
        EXPECT_GRANTED(a);
        EXPECT_TEXT(t, tck_try(b)->owner.id, odd[i]);
        EXPECT_TEXT(t, tck_read(reader)->owner.id, odd[i]);
        tck_release(a);
    }
}

/* And all that is longest at once. */
static void longest_id_works(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t);
    struct tck_contender *b = tck_stranger(t);
    struct tck_contender *c = tck_stranger(t);
    char id[SIMBA_ID_MAX + 1], name[SIMBA_MUTEX_MAX_BYTES + 1];

    make_longest_name(name);
    tck_at(a, name);
    tck_at(b, name);
    tck_at(c, name);

    memset(id, 'x', SIMBA_ID_MAX);
    id[SIMBA_ID_MAX] = '\0';
    tck_as(a, id);
    id[SIMBA_ID_MAX - 1] = 'y'; /* who cuts them takes them for one */
    tck_as(b, id);
    id[SIMBA_ID_MAX - 1] = 'z';
    tck_as(c, id);
    EXPECT_GRANTED(a);
    EXPECT_OWNS(a);
    EXPECT_QUEUED(b);
    EXPECT_QUEUED(c);
    EXPECT_TEXT(t, c->reply.owner.id, a->id);
    tck_release(a);
    EXPECT_GRANTED(b);
    EXPECT_OWNS(b);
}

static void made_ids_are_unlike(struct tck *t)
{
    char one[SIMBA_ID_MAX + 1], other[SIMBA_ID_MAX + 1];

    simba_id_host(one);
    simba_id_host(other);
    EXPECT(t, strcmp(one, other) != 0);
    simba_id_uuid(one);
    simba_id_uuid(other);
    EXPECT(t, strcmp(one, other) != 0 && strlen(one) == 32);
}

static const struct tck_case cases[] = {
    {"names.case_matters", "Names that differ in case are two mutexes.",
     case_matters, TCK_QUICK | TCK_SAFETY},
    {"names.spaces_at_the_end_matter",
     "Names that differ in spaces at their end are two mutexes.",
     spaces_at_the_end_matter, TCK_QUICK | TCK_SAFETY},
    {"names.spaces_at_the_front_matter",
     "Names that differ in spaces at their front are two mutexes.",
     spaces_at_the_front_matter, TCK_SAFETY},
    {"names.accents_are_compared_by_bytes",
     "Names are compared by bytes: no accent, form or sharp s is folded.",
     accents_are_compared_by_bytes, 0},
    {"names.one_may_begin_like_another",
     "A name and a longer one that begins with it are two mutexes.",
     one_may_begin_like_another, 0},
    {"names.patterns_match_only_themselves",
     "Characters that a store may take for patterns or escapes stand for "
     "themselves.",
     patterns_match_only_themselves, 0},
    {"names.odd_characters_work",
     "Names with / { } % : ' \" and spaces work, wherever they stand.",
     odd_characters_work, 0},
    {"names.longest_name_works",
     "66 characters of four bytes each are a name like any other.",
     longest_name_works, TCK_QUICK | TCK_SAFETY},
    {"names.odd_ones_are_woken_too",
     "Who waits for a mutex is woken whatever its name is.",
     odd_ones_are_woken_too, TCK_PUSH},
    {"names.last_byte_matters",
     "Two names of 264 bytes that differ in the last one are two mutexes.",
     last_byte_matters, TCK_SAFETY},
    {"names.shortest_name_is_accepted", "One character is a name.",
     shortest_name_is_accepted, 0},
    {"names.bad_names_are_refused",
     "Empty names, longer ones, a leading }, control characters and invalid "
     "UTF-8 are refused.",
     bad_names_are_refused, TCK_QUICK | TCK_SAFETY},
    {"names.bad_ids_are_refused",
     "Empty ids, longer ones than 128 bytes, @@ and a trailing @ are refused.",
     bad_ids_are_refused, 0},
    {"names.ids_are_told_as_given",
     "An id is told byte for byte as it was given.", ids_are_told_as_given, 0},
    {"names.longest_id_works",
     "Ids of 128 bytes are kept whole, also of a mutex with the longest name.",
     longest_id_works, TCK_SAFETY},
    {"names.made_ids_are_unlike",
     "No two ids that the library makes are alike.", made_ids_are_unlike, 0},
};

const struct tck_topic tck_topic_names = TCK_TOPIC(cases);
