/* Who is named by an offer. */
#include "backends/etcd/etcd.h"

#include "util/hash.h"

#include <stddef.h>

#include "fixtures/unit_test.h"

#include <string.h>

static simba__etcd_entry named(const char *id)
{
    simba__etcd_entry entry = {.base.attempt = {1, 2}};

    entry.base.id_hash = simba__fnv32(id, strlen(id));
    return entry;
}

/* Two ids may have one hash. */
TEST(test_etcd_hand_over__offer_names_an_id_and_not_its_hash)
{
    static const char ours[] = "costarring", theirs[] = "liquid";
    simba__etcd_entry entry = named(ours);
    simba__etcd_owner to_us = simba__etcd_offer(ours);
    simba__etcd_owner to_them = simba__etcd_offer(theirs);
    simba__etcd_step step = {.entry = &entry};
    simba_request acquire = SIMBA_REQUEST_INIT;

    to_us.is_there = to_them.is_there = true;
    assert_int_equal(entry.base.id_hash, simba__fnv32(theirs, strlen(theirs)));
    entry.step = &step; /* of one at rest */
    memcpy(step.id, ours, sizeof ours);
    assert_true(simba__etcd_is_offered(&entry, &to_us));
    assert_false(simba__etcd_is_offered(&entry, &to_them));
    acquire.id = ours;
    entry.base.acquire = &acquire;
    step.id[0] = '\0';
    assert_true(simba__etcd_is_offered(&entry, &to_us));
    assert_false(simba__etcd_is_offered(&entry, &to_them));
    entry.base.acquire = NULL;
    entry.step = NULL; /* no more is kept of it */
    assert_true(simba__etcd_is_offered(&entry, &to_us));
    to_us.id[0] = 'C';
    assert_false(simba__etcd_is_offered(&entry, &to_us));
}
