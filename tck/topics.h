/* One table of cases for each topic, each in the file of its name. */
#ifndef SIMBA_TCK_TOPICS_H
#define SIMBA_TCK_TOPICS_H

#include "kit.h"

extern const struct tck_topic tck_topic_acquire;
extern const struct tck_topic tck_topic_admin;
extern const struct tck_topic tck_topic_callbacks;
extern const struct tck_topic tck_topic_expire;
extern const struct tck_topic tck_topic_wake_ups;
extern const struct tck_topic tck_topic_lifecycle;
extern const struct tck_topic tck_topic_queue;
extern const struct tck_topic tck_topic_locker;
extern const struct tck_topic tck_topic_many;
extern const struct tck_topic tck_topic_names;
extern const struct tck_topic tck_topic_network;
extern const struct tck_topic tck_topic_network_doubt;
extern const struct tck_topic tck_topic_observer;
extern const struct tck_topic tck_topic_release;
extern const struct tck_topic tck_topic_renew;
extern const struct tck_topic tck_topic_scheduler;
extern const struct tck_topic tck_topic_storm;
extern const struct tck_topic tck_topic_times;
extern const struct tck_topic tck_topic_token;
extern const struct tck_topic tck_topic_transition;
extern const struct tck_topic tck_topic_offer;
extern const struct tck_topic tck_topic_slots;
extern const struct tck_topic tck_topic_hand_over;
extern const struct tck_topic tck_topic_tell;

#endif
