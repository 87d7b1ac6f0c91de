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

/* Whose turn it is, for those who observe the mutex. */
static void number(const struct simba__zk_errand *errand,
                   struct simba__zk_room *room)
{
    simba_reply *reply = &errand->request->reply;
    const struct simba__zk_item *items = errand->items;
    struct simba__zk_turns *turns = &room->turns;

    simba__zk_turns_look(turns, &errand->look);
    reply->turn = reply->next_turn = simba__zk_turn_next(turns);
    if (errand->count > 0) {
        reply->turn = simba__zk_turn(turns, simba__zk_place(items[0].path));
    }
    if (errand->count > 1) {
        reply->next_turn =
            simba__zk_turn(turns, simba__zk_place(items[1].path));
    }
}

static struct simba__zk_room *observed(const struct simba__zk_errand *errand)
{
    struct simba__zk_room *room = simba__zk_room_at(errand->self, errand->path);

    return room != NULL && room->is_observed ? room : NULL;
}

static void answer(struct simba__zk_errand *errand)
{
    simba_request *request = errand->request;

    request->reply.owner = errand->items[0].owner;
    for (int i = 1; request->want_queue && i < errand->count; i++) {
        const struct simba__zk_item *item = &errand->items[i];
        simba_waiter waiter = {.position = simba__zk_place(item->path),
                               .joined_at_ms = item->owner.acquired_at_ms};

        if (item->rc == ZOK) {
            memcpy(waiter.id, item->owner.id, sizeof waiter.id);
            simba_request_add_waiter(request, &waiter);
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
    int wanted = errand->request->want_queue ? errand->count : 1;
    bool is_sent = true;

    if ((rc != ZOK && rc != ZNONODE) || (rc == ZOK && errand->items == NULL)) {
        simba__zk_errand_fail(errand, rc == ZOK ? ZSYSTEMERROR : rc);
        return;
    }
    if (errand->is_numbered && observed(errand) != NULL) {
        number(errand, observed(errand));
    }
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
    errand->is_numbered = observed(errand) != NULL;
    errand->look = (struct simba__zk_look){0};
    if (!simba__zk_errand_line(errand)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}
