/* Who owns a mutex, and who waits. */
#include "backends/zookeeper/errand.h"

#include <stdlib.h>
#include <string.h>

/* The owner may go between two requests; this often is no accident. */
enum { ROUNDS_MOST = 16 };

static int by_sequence(const void *a, const void *b)
{
    const struct simba__zk_item *one = a, *other = b;

    return strcmp(simba__zk_sequence(one->path),
                  simba__zk_sequence(other->path));
}

/* Takes the latches of the errand's mutex, in the order of the line. */
static void heard(struct simba__zk_errand *errand,
                  int index,
                  const struct String_vector *list)
{
    int count = 0;

    (void)index;
    if (!simba__zk_errand_items(errand, list->count)) {
        return;
    }
    for (int i = 0; i < list->count; i++) {
        if (simba__zk_sequence(list->data[i]) != NULL) {
            errand->items[count].path =
                simba__zk_join(errand->path, list->data[i]);
            count += errand->items[count].path != NULL;
        }
    }
    errand->count = count;
    qsort(errand->items, (size_t)count, sizeof errand->items[0], by_sequence);
}

bool simba__zk_errand_line(struct simba__zk_errand *errand)
{
    return ++errand->rounds <= ROUNDS_MOST &&
           simba__zk_errand_children(errand, -1, heard);
}

/* Of a mutex that has no node yet. */
enum { FIRST_CHANGE = 1 };

static void answer(struct simba__zk_errand *errand)
{
    simba_op *op = errand->op;

    op->reply.owner = errand->items[0].owner;
    for (int i = 1; op->want_line && i < errand->count; i++) {
        const struct simba__zk_item *item = &errand->items[i];
        simba_waiter waiter = {.place = simba__zk_place(item->path),
                               .joined_at = item->owner.acquired_at_ms};

        if (item->rc == ZOK) {
            memcpy(waiter.id, item->owner.id, sizeof waiter.id);
            simba_op_add_waiter(op, &waiter);
        }
    }
    simba__zk_errand_done(errand);
}

static void read_data(struct simba__zk_errand *errand, int rc)
{
    if (errand->items[0].rc == ZOK) {
        answer(errand);
    } else if (errand->items[0].rc == ZNONODE) {
        simba__zk_read_start(errand); /* the owner went meanwhile */
    } else {
        simba__zk_errand_fail(errand, rc == ZOK ? errand->items[0].rc : rc);
    }
}

static void read_children(struct simba__zk_errand *errand, int rc)
{
    int wanted = errand->op->want_line ? errand->count : 1;
    bool is_sent = true;

    if ((rc != ZOK && rc != ZNONODE) || (rc == ZOK && errand->items == NULL)) {
        simba__zk_errand_fail(errand, rc == ZOK ? ZSYSTEMERROR : rc);
        return;
    }
    errand->op->reply.changes =
        FIRST_CHANGE + (rc == ZOK ? (uint32_t)errand->versions : 0U);
    if (rc == ZNONODE || errand->count == 0) {
        simba__zk_errand_done(errand); /* nobody owns it */
        return;
    }
    errand->step = read_data;
    for (int i = 0; is_sent && i < wanted; i++) {
        is_sent = simba__zk_errand_data(errand, i);
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}

void simba__zk_read_start(struct simba__zk_errand *errand)
{
    errand->step = read_children;
    if (!simba__zk_errand_line(errand)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}
