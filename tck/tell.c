/* tell: what owners tell about themselves, where it is offered. Nothing hangs
 * on it, but who looks must not be told of somebody else. */
#include "contender.h"
#include "topics.h"

#include <simba/admin.h>

#include <stdio.h>
#include <string.h>

static void close_report(void *what)
{
    simba_report_close(what);
}

static simba_report *told(struct tck_contender *p, const char *mutex)
{
    simba_report *report;

    EXPECT_DONE(p->t, simba_admin_told, p->store, mutex, &report);
    tck_later(p->t, close_report, report);
    return report;
}

static void is_read_back(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    const simba_told *found;
    simba_report *report;
    uint64_t token = 0;

    EXPECT_GRANTED(a);
    EXPECT_NUMBER(t, simba_report_told_count(told(b, t->mutex)), 0);
    tck_tell(a, "host h\xc3\xa9\npid 4711\nuser <b>'\\\"\nlater than us\n"
                "command sh -c $1 ;\t\x1b[31m --\n");
    report = told(b, t->mutex);
    EXPECT_NUMBER(t, simba_report_told_count(report), 1);
    found = simba_report_told(report, 0);
    EXPECT_TEXT(t, found->mutex, t->mutex);
    EXPECT_NUMBER(t, found->token, a->token);
    EXPECT_TEXT(t, found->host, "h\xc3\xa9");
    EXPECT_NUMBER(t, found->pid, 4711);
    EXPECT_TEXT(t, found->user, "<b>'\\\"");
    EXPECT_TEXT(t, found->command, "sh -c $1 ;\t\x1b[31m --");
    report = told(b, NULL);
    for (size_t i = 0; i < simba_report_told_count(report); i++) {
        if (strcmp(simba_report_told(report, i)->mutex, t->mutex) == 0) {
            token = simba_report_told(report, i)->token;
        }
    }
    EXPECT_NUMBER(t, token, a->token);
}

static void is_told_anew_and_forgotten(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    char text[sizeof "command \n" + SIMBA_TOLD_COMMAND_MAX];
    simba_report *report;

    EXPECT_GRANTED(a);
    tck_tell(a, "host one\n");
    tck_tell(a, "host two\n");
    report = told(b, t->mutex);
    EXPECT_NUMBER(t, simba_report_told_count(report), 1);
    EXPECT_TEXT(t, simba_report_told(report, 0)->host, "two");
    snprintf(text, sizeof text, "command %0*d\n", SIMBA_TOLD_COMMAND_MAX, 0);
    tck_tell(a, text); /* the longest there is */
    report = told(b, t->mutex);
    EXPECT_NUMBER(t, simba_report_told_count(report), 1);
    EXPECT_NUMBER(t, strlen(simba_report_told(report, 0)->command),
                  SIMBA_TOLD_COMMAND_MAX);
    tck_tell(a, NULL);
    EXPECT_NUMBER(t, simba_report_told_count(told(b, t->mutex)), 0);
    EXPECT(t, tck_renew(a)->mine); /* it had nothing to do with that */
}

static void each_tenure_has_its_own(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);
    simba_report *report;

    EXPECT_GRANTED(a);
    tck_tell(a, "host one\n");
    tck_release(a);
    EXPECT_GRANTED(b);
    tck_tell(b, "host two\n");
    report = told(a, t->mutex);
    for (size_t i = 0; i < simba_report_told_count(report); i++) {
        const simba_told *found = simba_report_told(report, i);

        EXPECT_TEXT(t, found->host, found->token == b->token ? "two" : "one");
        EXPECT(t, found->token == a->token || found->token == b->token);
    }
    EXPECT(t, simba_report_told_count(report) >= 1);
    tck_at(a, "tck other");
    EXPECT_NUMBER(t, simba_report_told_count(told(b, a->mutex)), 0);
}

static void is_gone_with_its_lease(struct tck *t)
{
    struct tck_contender *a = tck_stranger(t), *b = tck_stranger(t);

    a->times = t->short_lease;
    EXPECT_GRANTED(a);
    tck_tell(a, "host one\n");
    AWAIT(t, simba_report_told_count(told(b, t->mutex)) == 0);
}

static const struct tck_case cases[] = {
    {"tell.is_read_back",
     "What an owner tells about itself is told to who looks, with its token, "
     "of one mutex and of all.",
     is_read_back, TCK_TELL | TCK_QUICK},
    {"tell.is_told_anew_and_forgotten",
     "What is told again is told instead, and what is forgotten is gone.",
     is_told_anew_and_forgotten, TCK_TELL},
    {"tell.each_tenure_has_its_own",
     "Nothing that one tenure told is told of another, or of another mutex.",
     each_tenure_has_its_own, TCK_TELL},
    {"tell.is_gone_with_its_lease",
     "What was told is gone when the lease it was told with is over.",
     is_gone_with_its_lease, TCK_TELL | TCK_LAPSES},
};

const struct tck_topic tck_topic_tell = TCK_TOPIC(cases);
