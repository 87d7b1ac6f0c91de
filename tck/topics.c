/* The contract, topic by topic, in the order in which it is run: what others
 * build on comes first. A new topic is a file of its own and a line here. */
#include "topics.h"

const struct tck_topic *const tck_topics[] = {
    &tck_topic_acquire,
    &tck_topic_renew,
    &tck_topic_release,
    &tck_topic_token,
    &tck_topic_times,
    &tck_topic_expire,
    &tck_topic_transition,
    &tck_topic_queue,
    &tck_topic_offer,
    &tck_topic_slots,
    &tck_topic_hand_over,
    &tck_topic_lifecycle,
    &tck_topic_callbacks,
    &tck_topic_wake_ups,
    &tck_topic_observer,
    &tck_topic_names,
    &tck_topic_locker,
    &tck_topic_scheduler,
    &tck_topic_admin,
    &tck_topic_tell,
    &tck_topic_many,
    &tck_topic_network,
    &tck_topic_network_doubt,
    &tck_topic_storm,
    NULL,
};
