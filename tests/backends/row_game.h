/* A store that keeps rows in tables against the row in memory: thousands of
 * random operations, one after the other, must be answered alike. Included
 * after the driver of the store. */
#ifndef SIMBA_TESTS_ROW_GAME_H
#define SIMBA_TESTS_ROW_GAME_H

#include "row_model.h"

static struct simba__waiter *find_waiter(struct simba__mutex_record *row,
                                         const struct simba__request *request)
{
    for (size_t i = 0; i < row->queue_count; i++) {
        if (simba__attempt_equal(row->queue[i].attempt, request->attempt)) {
            return &row->queue[i];
        }
    }
    return NULL;
}

/* The same request to a row in memory, at the time the store says it was. */
static void replay(struct simba__mutex_record *row,
                   const struct who *who,
                   const simba_request *request,
                   struct simba__reply *reply)
{
    struct simba__request asked = request_of(who, request);
    struct simba__waiter *kept;
    int64_t lapses_ms;

    /* The last place is not kept in the tables. */
    row->last_position = row->is_offered ? row->offered.position : 0;
    for (size_t i = 0; i < row->queue_count; i++) {
        if (row->queue[i].position > row->last_position) {
            row->last_position = row->queue[i].position;
        }
    }
    kept = find_waiter(row, &asked);
    lapses_ms = kept == NULL ? 0 : kept->lapses_ms;
    serve_row(row, who, &asked, reply);
    /* Nor is a waiter lease written while more than half of it is left. */
    kept = find_waiter(row, &asked);
    if (kept != NULL && lapses_ms - got.store_ms > request->waiter_ms / 2) {
        kept->lapses_ms = lapses_ms;
    }
}

static void compare(const struct simba__mutex_record *row,
                    const struct simba__reply *reply)
{
    assert_int_equal(got.mine, reply->mine);
    assert_int_equal(got.is_queued, reply->is_queued);
    assert_int_equal(got.is_head, reply->is_head);
    assert_int_equal(got.position, reply->position);
    assert_int_equal(got.wait_ms, reply->wait_ms);
    assert_string_equal(got.owner.id, simba__mutex_is_held(row, got.store_ms)
                                          ? row->owner.id
                                          : "");
}

/* Each of five people through its own handle of these, which may be the same
 * for all. */
static void play_against_the_row(struct handle *const handles[PEOPLE],
                                 int64_t lease_ms)
{
    struct simba__mutex_record row;
    struct who who[PEOPLE];
    unsigned dice = 12345;

    simba__mutex_init(&row);
    for (int i = 0; i < PEOPLE; i++) {
        who[i] = newcomer(handles[i], ids[i], lease_ms);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        struct simba__reply reply;
        struct who *one;
        simba_request request;

        dice = dice * 1103515245 + 12345;
        one = &who[dice / 65536 % PEOPLE];
        dice = dice * 1103515245 + 12345;
        request = any_op(one, lease_ms, dice / 65536);
        run(one, request);
        replay(&row, one, &request, &reply);
        compare(&row, &reply);
        one->position = one->position == 0 ? got.position : one->position;
        if (request.kind == SIMBA_LEAVE || request.kind == SIMBA_RELEASE) {
            *one = newcomer(one->at, one->id, lease_ms);
        }
        if (dice / 65536 % 50 == 0) {
            nap_ms(dice / 65536 % 500 < 20 ? 310 : dice / 65536 % 30);
        }
    }
    simba__mutex_fini(&row);
}

#endif
