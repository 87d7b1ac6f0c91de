/* Requests without an entry: read, list, break and doctor. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/name.h"
#include "util/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DENIED = 7 }; /* gRPC's status for what our user may not ask */

/* One of them under way. */
struct admin {
    struct simba__admin base;
    simba__etcd_txn txn;
    bool is_denied; /* what was asked of any server; its reply is empty */
    void (*taken)(struct admin *admin);
    /* A list, as far as it has come. */
    simba_listed *listed;
    size_t count;
    char from[SIMBA__ETCD_KEY_SIZE];
};

static void finish(struct admin *admin, int status, const simba_error *error)
{
    admin->base.writes &= status == SIMBA_EUNKNOWN;
    simba__rpc_fini(&admin->txn.rpc);
    free(admin->listed);
    simba__admin_end(&admin->base, status, error);
}

static void on_reply(simba__etcd_txn *txn, int status, const simba_error *error)
{
    struct admin *admin = container_of(txn, struct admin, txn);

    admin->is_denied =
        status != SIMBA_OK && error->native == DENIED && txn->rpc.is_leaderless;
    if (status == SIMBA_OK || admin->is_denied) {
        admin->taken(admin);
    } else {
        finish(admin, status, error);
    }
}

static void send(struct admin *admin, void (*taken)(struct admin *admin))
{
    admin->taken = taken;
    admin->txn.done = on_reply;
    simba__etcd_submit(&admin->txn, admin->base.request, 0);
}

static void get(struct admin *admin,
                const char *letters,
                void (*taken)(struct admin *admin))
{
    simba__etcd_write_look(&admin->txn, letters);
    send(admin, taken);
}

static simba__etcd_owner owner_of(struct admin *admin)
{
    simba__etcd_got got = simba__etcd_got_of(&admin->txn, 'o');

    return simba__etcd_owner_read(&got.kv);
}

/* --- read ---------------------------------------------------------------- */

static void tell_members(struct admin *admin)
{
    simba_reply *reply = &admin->base.request->reply;
    simba__pb_bytes all = simba__etcd_got_of(&admin->txn, 'M').all;
    simba_crowd crowd = {0};
    simba__etcd_owner who;
    simba_owner told;

    for (; simba__etcd_next_member(&all, &who);
         simba_crowd_add(&crowd, who.slots)) {
        told = simba__etcd_owner_told(&who);
        if (crowd.count == 0) {
            reply->owner = told;
        }
        simba_request_add_owner(admin->base.request, &told);
    }
    reply->owned = crowd.owned;
    reply->slots = crowd.slots;
}

/* A token is written once with every tenure, so that its key's version numbers
 * them: by it observers see whether they missed one. */
static void take_read(struct admin *admin)
{
    simba_reply *reply = &admin->base.request->reply;
    simba__pb_bytes all = simba__etcd_got_of(&admin->txn, 'Q').all;
    simba__etcd_owner owner = owner_of(admin);
    simba__etcd_kv kv;

    reply->owner = simba__etcd_owner_told(&owner);
    reply->owned = owner.is_there;
    if (owner.is_crowd) {
        tell_members(admin);
    }
    reply->next_serial =
        (uint64_t)simba__etcd_got_of(&admin->txn, 't').kv.version + 1;
    reply->serial = reply->next_serial - (reply->owner.id[0] != '\0');
    while (simba__etcd_next_kv(&all, &kv)) {
        simba__etcd_owner waits = simba__etcd_owner_read(&kv);
        simba_waiter waiter = {.position = (uint64_t)kv.create,
                               .joined_at_ms = waits.acquired_at_ms,
                               .slots = (uint32_t)waits.lease_ms};

        memcpy(waiter.id, waits.id, sizeof waiter.id);
        simba_request_add_waiter(admin->base.request, &waiter);
    }
    finish(admin, SIMBA_OK, NULL);
}

static void start_read(struct admin *admin)
{
    get(admin, admin->base.request->want_queue ? "otMQ" : "otM", take_read);
}

/* --- list ---------------------------------------------------------------- */

/* Behind the prefix a key has a letter and a slash, and then its mutex up to
 * the next slash. The letter; 0: this is none of ours. */
static char read_mutex(const struct admin *admin,
                       const simba__etcd_kv *kv,
                       char mutex[SIMBA_MUTEX_MAX_BYTES + 1])
{
    size_t skip = strlen(admin->txn.self->settings.prefix);
    size_t length = kv->key.length > skip + 2 ? kv->key.length - skip : 0;
    char name[SIMBA__ETCD_KEY_SIZE];

    if (length == 0 || length >= sizeof name) {
        return 0;
    }
    memcpy(name, kv->key.at + skip, length);
    name[length] = '\0';
    name[2 + strcspn(name + 2, "/")] = '\0';
    if (!simba__text_unescape(name + 2) ||
        simba__name_check_mutex(name + 2, strlen(name + 2)) !=
            SIMBA__NAME_FINE) {
        return 0;
    }
    memcpy(mutex, name + 2, strlen(name + 2) + 1);
    return name[0];
}

static bool is_same(const simba_listed *a, const simba_listed *b)
{
    return strcmp(a->mutex, b->mutex) == 0;
}

/* Those of one name together, the oldest owner first. */
static int by_name(const void *a, const void *b)
{
    const simba_listed *one = a, *other = b;
    int order = strcmp(one->mutex, other->mutex);

    return order != 0 ? order
                      : (one->owner.token > other->owner.token) -
                            (one->owner.token < other->owner.token);
}

/* One for each owner and each waiter; those of one name become one. */
static void tell_list(struct admin *admin)
{
    simba_listed *all = admin->listed, *end = all + admin->count, *next;

    qsort(all, admin->count, sizeof *all, by_name);
    for (simba_listed *one = all; one < end; one = next) {
        const simba_owner *oldest = &one->owner;
        int waiting = 0;

        for (next = one; next < end && is_same(next, one); next++) {
            waiting += next->waiting;
            oldest = oldest->id[0] == '\0' ? &next->owner : oldest;
        }
        simba_request_add_mutex(admin->base.request, one->mutex, oldest,
                                waiting);
        for (; one < next; one++) {
            if (one->owner.id[0] != '\0') {
                simba_request_add_owner(admin->base.request, &one->owner);
            }
        }
    }
    finish(admin, SIMBA_OK, NULL);
}

/* An entry of a list; false: it is none. Of several each has its own. */
static bool read_listed(const struct admin *admin,
                        const simba__etcd_kv *kv,
                        simba_listed *to)
{
    char letter = read_mutex(admin, kv, to->mutex);
    simba__etcd_owner owner = letter == 'm' ? simba__etcd_member_read(kv)
                                            : simba__etcd_owner_read(kv);

    to->waiting = letter == 'q';
    to->owner =
        letter == 'q' ? simba_owner_none() : simba__etcd_owner_told(&owner);
    return letter != 0 && !owner.is_crowd;
}

/* A page of members, owners and waiters. */
static void take_list(struct admin *admin)
{
    simba__etcd_got got = simba__etcd_got_of(&admin->txn, 'A');
    simba_listed *all =
        realloc(admin->listed, (admin->count + got.here + 1) * sizeof *all);
    simba__pb_bytes rest = got.all;
    simba__etcd_kv kv = {0};

    if (all == NULL) {
        finish(admin, SIMBA_ENOMEM, NULL);
        return;
    }
    admin->listed = all;
    while (simba__etcd_next_kv(&rest, &kv)) {
        admin->count += read_listed(admin, &kv, &all[admin->count]);
    }
    if (got.count > (int64_t)got.here && kv.key.length > 0) {
        snprintf(admin->from, sizeof admin->from, "%.*s\1", /* behind it */
                 (int)kv.key.length, kv.key.at);
        admin->txn.from = admin->from;
        get(admin, "A", take_list);
    } else {
        tell_list(admin);
    }
}

/* --- break --------------------------------------------------------------- */

static void take_owner(struct admin *admin);

static void take_break(struct admin *admin)
{
    if (!admin->txn.is_done) {
        admin->base.writes = 0;
        get(admin, "oM", take_owner); /* renewed or released meanwhile */
        return;
    }
    simba__admin_broke(&admin->base, &admin->txn.self->log);
    start_read(admin);
}

/* The one of several with this token. */
static bool find_member(struct admin *admin, simba__etcd_owner *owner)
{
    simba__pb_bytes all = simba__etcd_got_of(&admin->txn, 'M').all;
    bool is_found = false;

    while (!is_found && simba__etcd_next_member(&all, owner)) {
        is_found = owner->token == admin->base.request->token;
    }
    return is_found;
}

static void take_owner(struct admin *admin)
{
    simba_request *request = admin->base.request;
    simba__etcd_owner owner = owner_of(admin);
    char letter = owner.is_crowd ? 'g' : 'o';
    bool is_it;

    is_it = owner.is_crowd ? find_member(admin, &owner)
                           : owner.is_there && owner.token == request->token;
    request->reply.mine = is_it && owner.is_broken && !request->now;
    if (!is_it || request->reply.mine) {
        start_read(admin);
        return;
    }
    simba__etcd_write_break(&admin->txn, letter, &owner, request);
    admin->base.writes = 1;
    send(admin, take_break);
}

/* --- the book of breaks -------------------------------------------------- */

/* As simba__etcd_write_break() writes it; false: nobody can read it. */
static bool read_break(const struct admin *admin,
                       const simba__etcd_kv *kv,
                       simba_broken *broken)
{
    char line[SIMBA__ETCD_KEY_SIZE], token[SIMBA__ETCD_MEMBER];
    char *rest, *reason;

    if (kv->value.length >= sizeof line ||
        read_mutex(admin, kv, broken->mutex) == 0) {
        return false;
    }
    memcpy(line, kv->value.at, kv->value.length);
    line[kv->value.length] = '\0';
    broken->unix_ms = strtoll(line, &rest, 10);
    broken->now = *rest == '!';
    rest += broken->now;
    reason = strchr(rest, '\n'); /* no id has one */
    if (*rest != ' ' || reason == NULL) {
        return false;
    }
    *reason = '\0';
    simba__etcd_key_name(kv, token);
    broken->token = strtoull(token, NULL, 16);
    (void)snprintf(broken->id, sizeof broken->id, "%s", rest + 1);
    (void)snprintf(broken->reason, sizeof broken->reason, "%s", reason + 1);
    return true;
}

static void take_breaks(struct admin *admin)
{
    simba__pb_bytes all = simba__etcd_got_of(&admin->txn, 'B').all;
    simba__etcd_kv kv;

    while (simba__etcd_next_kv(&all, &kv)) {
        simba_broken broken = {0};

        if (read_break(admin, &kv, &broken)) {
            simba_request_add_broken(admin->base.request, &broken);
        }
    }
    finish(admin, SIMBA_OK, NULL);
}

/* --- hand-over ----------------------------------------------------------- */

static void take_hand_over(struct admin *admin);

static void take_asked(struct admin *admin)
{
    if (admin->txn.is_done) {
        finish(admin, SIMBA_OK, NULL);
    } else { /* it has changed meanwhile */
        get(admin, "oQ", take_hand_over);
    }
}

/* Written into the key, so that the next renewal reads it. */
static void take_hand_over(struct admin *admin)
{
    simba_request *request = admin->base.request;
    simba_reply *reply = &request->reply;
    simba__etcd_owner owner = owner_of(admin);
    simba__etcd_heir heir;
    simba_error error;

    if (owner.is_crowd) {
        finish(admin,
               simba_error_set(&error, SIMBA_EINVAL, 0,
                               "etcd: of several owners none can be asked to "
                               "hand over"),
               &error);
        return;
    }
    reply->mine = owner.token != 0 && !owner.is_broken &&
                  (request->token == 0 || request->token == owner.token);
    reply->owner = simba__etcd_owner_told(&owner);
    reply->to[0] = '\0';
    if (!reply->mine ||
        !simba__etcd_find_heir(&admin->txn, request->to, &heir)) {
        finish(admin, SIMBA_OK, NULL);
        return;
    }
    memcpy(reply->to, heir.who.id, sizeof reply->to);
    snprintf(owner.asked, sizeof owner.asked, "%s",
             request->to == NULL ? "@" : request->to);
    simba__etcd_write_asked(&admin->txn, &owner);
    admin->base.writes = 1;
    send(admin, take_asked);
}

/* --- doctor -------------------------------------------------------------- */

/* Asks any server without saying anything. */
static void ask(struct admin *admin,
                const char *method,
                void (*taken)(struct admin *admin))
{
    (void)simba__rpc_begin(&admin->txn.rpc);
    admin->txn.rpc.method = method;
    admin->txn.rpc.is_leaderless = true;
    send(admin, taken);
}

#define FIND(grade, topic, ...)                                                \
    simba_request_add_finding(admin->base.request, SIMBA_FINDING_##grade,      \
                              topic, __VA_ARGS__)

/* AlarmResponse: 2 alarms, each with 2 its kind, 1: no space. */
static void take_alarms(struct admin *admin)
{
    simba__pb_bytes rest = admin->txn.rpc.reply, alarm;
    bool is_any = false;

    while (simba__pb_next(&rest, 2, &alarm)) {
        is_any = true;
        FIND(SERIOUS, "alarm", "%s",
             simba__pb_read(alarm).number[2] == 1
                 ? "a server has no space left in its quota: nothing can be "
                   "acquired or renewed; compact, defragment, disarm the "
                   "alarm, and on 3.4 let every member store a change before "
                   "one is started again (docs/operations.md)"
                 : "a server's data is corrupt: replace it");
    }
    if (admin->is_denied) {
        FIND(NOTE, "alarm", "this user may not ask whether there are alarms");
    } else if (!is_any) {
        FIND(OK, "alarm", "no server raises an alarm");
    }
    FIND(OK, "clock",
         "leases count on the boot clocks of owner and waiters: steps of the "
         "wall clock do nothing to them");
    FIND(NOTE, "token",
         "tokens grow over a restore from a snapshot as far as the clocks of "
         "contenders did not go back over the time that was lost");
    finish(admin, SIMBA_OK, NULL);
}

/* MemberListResponse: 2 members, each with 5 whether it only learns. */
static void take_members(struct admin *admin)
{
    simba__pb_bytes rest = admin->txn.rpc.reply, member;
    int voters = 0, learners = 0;

    while (simba__pb_next(&rest, 2, &member)) {
        *(simba__pb_read(member).number[5] != 0 ? &learners : &voters) += 1;
    }
    if (admin->is_denied) {
        FIND(NOTE, "quorum", "this user may not ask how many servers vote");
    } else {
        simba__servers_find_quorum(admin->base.request, "quorum", voters,
                                   SIMBA_FINDING_WEAK);
    }
    if (learners > 0) {
        FIND(NOTE, "learners", "%d servers learn and have no vote yet",
             learners);
    }
    ask(admin, SIMBA__ETCD_METHOD("Maintenance/Alarm"), take_alarms);
}

static void take_reached(struct admin *admin)
{
    finish(admin, SIMBA_OK, NULL);
}

/* StatusResponse: 2 version, 4 leader, 10 whether it only learns. */
static void take_status(struct admin *admin)
{
    const struct simba__servers *servers = &admin->txn.self->settings.servers;
    simba__pb_fields status = simba__pb_read(admin->txn.rpc.reply);
    simba__pb_bytes version = status.bytes[2];

    if (admin->is_denied) { /* since etcd 3.6, to all but root */
        FIND(NOTE, "leader",
             "this user may not ask which version this is, and whether there "
             "is a leader");
    } else {
        FIND(OK, "version", "etcd %.*s",
             (int)(version.length > 40 ? 40 : version.length),
             version.length == 0 ? "" : version.at);
        if (status.number[4] == 0) {
            FIND(SERIOUS, "leader",
                 "there is no leader: nothing can be acquired");
        } else if (status.number[10] != 0) {
            FIND(SERIOUS, "leader",
                 "this server only learns: name one that votes");
        } else {
            FIND(OK, "leader", "the servers have a leader");
        }
    }
    simba__servers_find_tls(servers, admin->base.request);
    if (servers->url.user != NULL) {
        FIND(OK, "auth", "a user and password are asked for");
    } else {
        FIND(WEAK, "auth", "whoever reaches the servers may free a mutex");
    }
    ask(admin, SIMBA__ETCD_METHOD("Cluster/MemberList"), take_members);
}

/* --- requests ------------------------------------------------------------ */

void simba__etcd_admin(simba_session_store *store, simba_request *request)
{
    struct admin *admin = simba__admin_begin(store, request, sizeof *admin);

    if (admin == NULL) {
        return;
    }
    admin->txn.self = SIMBA__ETCD(store);
    admin->txn.mutex = request->mutex;
    switch (request->kind) {
    case SIMBA_LIST:
        get(admin, "A", take_list);
        break;
    case SIMBA_BREAK:
        get(admin, "oM", take_owner);
        break;
    case SIMBA_HAND_OVER:
        get(admin, "oQ", take_hand_over);
        break;
    case SIMBA_BREAKS:
        get(admin, "B", take_breaks);
        break;
    case SIMBA_DOCTOR:
    case SIMBA_REACH:
        ask(admin, SIMBA__ETCD_METHOD("Maintenance/Status"),
            request->kind == SIMBA_DOCTOR ? take_status : take_reached);
        break;
    default:
        start_read(admin);
        break;
    }
}
