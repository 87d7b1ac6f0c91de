/* Which statements a handle sends, in their order. */
#ifndef TESTS_BACKENDS_SQL_SENT_H
#define TESTS_BACKENDS_SQL_SENT_H

#include "driver.h"

#include <pthread.h>

static enum simba__sql_statement sent[32];
static size_t sent_count;
static const struct simba__sql_dialect *dialect;
static void *(*before_send)(void *statement);

static inline void note_send(struct simba__sql_session *session,
                             enum simba__sql_statement statement)
{
    assert_true(sent_count < sizeof sent / sizeof sent[0]);
    if (statement != SIMBA__SQL_HEARTBEAT) {
        sent[sent_count++] = statement;
    }
    if (before_send != NULL) { /* on a thread that is in no other loop */
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, before_send, &statement),
                         0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    dialect->send(session, statement);
}

/* Since the last time. */
#define EXPECT_SENT(...)                                                       \
    do {                                                                       \
        const enum simba__sql_statement expected[] = {__VA_ARGS__};            \
        assert_int_equal(sent_count, sizeof expected / sizeof expected[0]);    \
        assert_memory_equal(sent, expected, sizeof expected);                  \
        sent_count = 0;                                                        \
    } while (0)

static inline void note_statements(struct handle *handle)
{
    static struct simba__sql_dialect noting;
    struct simba__sql *self = (struct simba__sql *)handle->backend;

    dialect = self->dialect;
    noting = *dialect;
    noting.send = note_send;
    self->dialect = &noting;
    sent_count = 0;
}

static inline void note_no_more(struct handle *handle)
{
    ((struct simba__sql *)handle->backend)->dialect = dialect;
    before_send = NULL;
}

#endif
