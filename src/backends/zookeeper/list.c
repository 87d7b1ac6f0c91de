/* Which mutexes are there: the children of /simba, for each its latches, for
 * each the data of the lowest. */
#include "backends/zookeeper/errand.h"
#include "core/name.h"

#include <stdlib.h>
#include <string.h>

static void heard_mutexes(struct simba__zk_errand *errand,
                          int index,
                          const struct String_vector *list)
{
    (void)index;
    if (!simba__zk_errand_items(errand, list->count)) {
        return;
    }
    for (int i = 0; i < list->count; i++) {
        errand->items[i].path = simba__zk_join(errand->path, list->data[i]);
        errand->items[i].rc = ZNONODE;
    }
}

static void heard_latches(struct simba__zk_errand *errand,
                          int index,
                          const struct String_vector *list)
{
    struct simba__zk_item *item = &errand->items[index];
    struct simba__zk_standing where;

    simba__zk_stand(list->data, list->count, NULL, &where);
    item->latches = where.latches;
    if (where.lowest >= 0) {
        item->lowest = simba__zk_join(item->path, list->data[where.lowest]);
    }
}

static void answer(struct simba__zk_errand *errand, int rc)
{
    size_t skip = strlen(errand->path) + 1;
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];

    (void)rc; /* a mutex that went meanwhile is not listed */
    for (int i = 0; i < errand->count; i++) {
        const struct simba__zk_item *item = &errand->items[i];

        if (item->rc == ZOK && simba__zk_unescape(item->path + skip, mutex) &&
            simba__name_check_mutex(mutex, strlen(mutex)) == SIMBA__NAME_FINE) {
            simba_request_add_mutex(errand->request, mutex, &item->owner,
                                    item->latches - 1);
        }
    }
    simba__zk_errand_done(errand);
}

static void ask_owners(struct simba__zk_errand *errand, int rc)
{
    bool is_sent = true;

    (void)rc;
    errand->step = answer;
    for (int i = 0; is_sent && i < errand->count; i++) {
        if (errand->items[i].lowest != NULL) {
            is_sent = simba__zk_errand_data(errand, i);
        }
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    } else if (errand->calls == 0) {
        simba__zk_errand_done(errand);
    }
}

static void ask_latches(struct simba__zk_errand *errand, int rc)
{
    bool is_sent = true;

    if (rc != ZOK && rc != ZNONODE) {
        simba__zk_errand_fail(errand, rc);
        return;
    }
    errand->step = ask_owners;
    for (int i = 0; is_sent && i < errand->count; i++) {
        if (errand->items[i].path != NULL) {
            is_sent = simba__zk_errand_children(errand, i, heard_latches);
        }
    }
    if (!is_sent) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    } else if (errand->calls == 0) {
        simba__zk_errand_done(errand);
    }
}

void simba__zk_list_start(struct simba__zk_errand *errand)
{
    errand->step = ask_latches;
    if (!simba__zk_errand_children(errand, -1, heard_mutexes)) {
        simba__zk_errand_fail(errand, ZCONNECTIONLOSS);
    }
}
