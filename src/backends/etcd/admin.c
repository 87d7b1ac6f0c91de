/* Requests without an entry: read, list, break and doctor; and observers. */
#define _GNU_SOURCE
#include "backends/etcd/etcd.h"

#include "core/name.h"
#include "util/container.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of them under way. */
struct admin {
    struct simba__etcd_transaction txn;
    simba_request *request;
    void (*taken)(struct admin *admin);
    union {
        simba__etcd_status_reply status;
        simba__etcd_members_reply members;
        simba__etcd_alarms_reply alarms;
    } reply;
    bool has_written; /* a break that may have taken effect */
};

/* What only read has no outcome to be in doubt about. */
static void finish(struct admin *admin, int status, const simba_error *error)
{
    simba_request *request = admin->request;
    simba_error why = error == NULL ? (simba_error){0} : *error;

    why.code = status == SIMBA_EUNKNOWN && !admin->has_written ? SIMBA_EUNAVAIL
                                                               : status;
    simba__rpc_fini(&admin->txn.rpc);
    free(admin);
    simba_request_done(request, why.code, error == NULL ? NULL : &why);
}

static void on_reply(struct simba__rpc *rpc,
                     int status,
                     const simba_error *error)
{
    struct admin *admin = container_of(rpc, struct admin, txn.rpc);

    if (status == SIMBA_OK) {
        if (rpc->method == SIMBA__ETCD_TXN) {
            simba__etcd_take(&admin->txn);
        }
        admin->taken(admin);
    } else {
        finish(admin, status, error);
    }
}

static void send(struct admin *admin, void (*taken)(struct admin *admin))
{
    admin->taken = taken;
    simba__etcd_submit(&admin->txn, admin->request, 0, on_reply);
}

static void get(struct admin *admin,
                const char *which,
                void (*taken)(struct admin *admin))
{
    simba__etcd_begin(&admin->txn);
    simba__etcd_do_get(&admin->txn, SIMBA__ETCD_THEN, which);
    send(admin, taken);
}

/* --- read ---------------------------------------------------------------- */

/* A token is written once with every tenure, so that its key's version numbers
 * them: by it observers see whether they missed one. */
static void take_read(struct admin *admin)
{
    simba_request *request = admin->request;
    struct simba__etcd_owner owner =
        simba__etcd_owner_read(simba__etcd_got(&admin->txn, 'o'));
    simba__etcd_kv kv;

    request->reply.owner = simba__etcd_owner_told(&owner);
    request->reply.next_serial =
        (uint64_t)simba__etcd_got(&admin->txn, 't')->version + 1;
    request->reply.serial = request->reply.next_serial - owner.is_there;
    while (simba__etcd_next(&admin->txn.ranges[0], &kv)) {
        struct simba__etcd_owner waits = simba__etcd_owner_read(&kv);
        simba_waiter waiter = {.position = (uint64_t)kv.create_revision,
                               .joined_at_ms = waits.acquired_at_ms};

        memcpy(waiter.id, waits.id, sizeof waiter.id);
        simba_request_add_waiter(request, &waiter);
    }
    finish(admin, SIMBA_OK, NULL);
}

static void start_read(struct admin *admin)
{
    get(admin, admin->request->want_queue ? "otQ" : "ot", take_read);
}

/* --- list ---------------------------------------------------------------- */

/* A mutex that is listed. */
struct listed {
    char name[SIMBA_MUTEX_MAX_BYTES * 3 + 1];
    simba_owner owner;
    int waiting;
};

/* The mutex of a key behind `skip` bytes, up to the next slash. */
static bool read_name(const simba__etcd_kv *kv, size_t skip, struct listed *to)
{
    const char *from = kv->key.at + skip;
    size_t length = kv->key.length > skip ? kv->key.length - skip : 0;
    const char *end = length == 0 ? NULL : memchr(from, '/', length);

    length = end == NULL ? length : (size_t)(end - from);
    if (length == 0 || length >= sizeof to->name) {
        return false;
    }
    memcpy(to->name, from, length);
    to->name[length] = '\0';
    return simba__text_unescape(to->name) &&
           simba__name_check_mutex(to->name, strlen(to->name)) ==
               SIMBA__NAME_FINE;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->name,
                  ((const struct listed *)b)->name);
}

/* One for each owner and each waiter; those of one name become one. */
static void take_list(struct admin *admin)
{
    size_t skip = strlen(admin->txn.self->settings.prefix) + 2, count = 0;
    simba__etcd_list *ranges = admin->txn.ranges;
    struct listed *all =
        calloc(ranges[0].count + ranges[1].count + 1, sizeof *all);
    simba__etcd_kv kv;

    for (int i = 0; all != NULL && i < 2; i++) {
        while (simba__etcd_next(&ranges[i], &kv)) {
            struct simba__etcd_owner owner = simba__etcd_owner_read(&kv);

            all[count] = (struct listed){.waiting = i};
            if (i == 0) {
                all[count].owner = simba__etcd_owner_told(&owner);
            }
            count += read_name(&kv, skip, &all[count]);
        }
    }
    if (count > 0) {
        qsort(all, count, sizeof *all, by_name);
    }
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1;
             next < count && strcmp(all[next].name, all[i].name) == 0; next++) {
            all[i].waiting += all[next].waiting;
            if (all[next].owner.id[0] != '\0') {
                all[i].owner = all[next].owner;
            }
        }
        simba_request_add_mutex(admin->request, all[i].name, &all[i].owner,
                                all[i].waiting);
    }
    finish(admin, all == NULL ? SIMBA_ENOMEM : SIMBA_OK, NULL);
    free(all);
}

/* --- break --------------------------------------------------------------- */

static void take_owner(struct admin *admin);

static void take_break(struct admin *admin)
{
    simba_request *request = admin->request;

    if (!admin->txn.reply.succeeded) {
        admin->has_written = false;
        get(admin, "o", take_owner); /* renewed or released meanwhile */
        return;
    }
    request->reply.mine = true;
    simba__log(&admin->txn.self->log, SIMBA_LOG_WARN,
               "broke the tenure %llu of \"%s\": %s",
               (unsigned long long)request->token, request->mutex,
               request->reason != NULL && request->reason[0] != '\0'
                   ? request->reason
                   : "no reason given");
    start_read(admin);
}

/* With `now` the key is removed; else it is marked, so that it cannot be
 * renewed, and stays for its lease. Both with a line in the book. */
static void take_owner(struct admin *admin)
{
    simba_request *request = admin->request;
    struct simba__etcd_transaction *txn = &admin->txn;
    struct simba__etcd_owner owner =
        simba__etcd_owner_read(simba__etcd_got(txn, 'o'));
    bool is_it = owner.is_there && owner.token == request->token;
    char value[SIMBA__ETCD_KEY_SIZE], book[24];

    request->reply.mine = is_it && owner.is_broken && !request->now;
    if (!is_it || request->reply.mine) {
        start_read(admin);
        return;
    }
    snprintf(book, sizeof book, "%016llx", (unsigned long long)owner.token);
    txn->book = book;
    simba__etcd_begin(txn);
    simba__etcd_if(txn, 'o', SIMBA__ETCD_MOD, owner.mod);
    if (request->now) {
        simba__etcd_do_delete(txn, 'o');
    } else {
        owner.is_broken = true;
        simba__etcd_owner_write(&owner, value);
        simba__etcd_do_put(txn, SIMBA__ETCD_THEN, 'o', value);
    }
    snprintf(value, sizeof value, "%lld %s: %.500s",
             (long long)(simba__etcd_wall_us() / 1000), owner.id,
             request->reason == NULL ? "" : request->reason);
    simba__etcd_do_put(txn, SIMBA__ETCD_THEN, 'b', value);
    admin->has_written = true;
    send(admin, take_break);
}

/* --- doctor -------------------------------------------------------------- */

/* Asks without saying anything. */
static void ask(struct admin *admin,
                enum simba__etcd_method method,
                void (*taken)(struct admin *admin))
{
    struct simba__rpc *rpc = &admin->txn.rpc;

    (void)simba__rpc_begin(rpc);
    rpc->method = method;
    rpc->answer = &admin->reply;
    rpc->done = on_reply;
    rpc->exchange.deadline_ms = admin->request->deadline_ms;
    admin->taken = taken;
    simba__rpc_submit(&admin->txn.self->grpc, rpc);
}

static void take_alarms(struct admin *admin)
{
    simba_request *request = admin->request;
    simba__etcd_alarm alarm;
    bool is_any = false;

    while (simba__etcd_next(&admin->reply.alarms.alarms, &alarm)) {
        is_any = true;
        simba_request_add_finding(
            request, SIMBA_FINDING_SERIOUS, "alarm", "%s",
            alarm.alarm == 1
                ? "a server has no space left in its quota: nothing can be "
                  "acquired or renewed; compact, defragment, disarm the alarm"
                : "a server's data is corrupt: replace it");
    }
    if (!is_any) {
        simba_request_add_finding(request, SIMBA_FINDING_OK, "alarm",
                                  "no server raises an alarm");
    }
    simba_request_add_finding(
        request, SIMBA_FINDING_OK, "clock",
        "leases count on the boot clocks of owner and waiters: steps of the "
        "wall clock do nothing to them");
    simba_request_add_finding(
        request, SIMBA_FINDING_NOTE, "token",
        "tokens grow over a restore from a snapshot as far as the clocks of "
        "contenders did not go back over the time that was lost");
    finish(admin, SIMBA_OK, NULL);
}

static void take_members(struct admin *admin)
{
    simba_request *request = admin->request;
    simba__etcd_member member;
    int voters = 0, learners = 0;

    while (simba__etcd_next(&admin->reply.members.members, &member)) {
        voters += !member.is_learner;
        learners += member.is_learner;
    }
    if (voters <= 1) {
        simba_request_add_finding(request, SIMBA_FINDING_WEAK, "quorum",
                                  "a single server: while it is down nobody "
                                  "acquires, and what its disk loses is lost");
    } else {
        simba_request_add_finding(
            request, voters % 2 == 0 ? SIMBA_FINDING_NOTE : SIMBA_FINDING_OK,
            "quorum", "%d servers vote: mutexes survive the loss of %d", voters,
            (voters - 1) / 2);
    }
    if (learners > 0) {
        simba_request_add_finding(request, SIMBA_FINDING_NOTE, "learners",
                                  "%d servers learn and have no vote yet",
                                  learners);
    }
    ask(admin, SIMBA__ETCD_ALARMS, take_alarms);
}

/* Nobody else hears what is sent to ourselves. */
static bool is_loopback(const struct simba__url *url)
{
    for (size_t i = 0; i < url->host_count; i++) {
        const char *name = url->hosts[i].name;

        if (strncmp(name, "127.", 4) != 0 && strcmp(name, "::1") != 0 &&
            strcmp(name, "localhost") != 0) {
            return false;
        }
    }
    return true;
}

static void take_reached(struct admin *admin)
{
    finish(admin, SIMBA_OK, NULL);
}

static void take_status(struct admin *admin)
{
    const simba__etcd_status_reply *status = &admin->reply.status;
    const struct simba__etcd *self = admin->txn.self;
    bool is_local = is_loopback(&self->settings.url);
    simba_request *request = admin->request;

    simba_request_add_finding(
        request, SIMBA_FINDING_OK, "version", "etcd %.*s",
        (int)(status->version.length > 40 ? 40 : status->version.length),
        status->version.length == 0 ? "" : status->version.at);
    simba_request_add_finding(
        request,
        status->leader == 0 || status->is_learner ? SIMBA_FINDING_SERIOUS
                                                  : SIMBA_FINDING_OK,
        "leader", "%s",
        status->leader == 0  ? "there is no leader: nothing can be acquired"
        : status->is_learner ? "this server only learns: name one that votes"
                             : "the servers have a leader");
    simba_request_add_finding(
        request,
        self->settings.tls.is_on || is_local ? SIMBA_FINDING_OK
                                             : SIMBA_FINDING_WEAK,
        "tls", "%s",
        self->settings.tls.is_on ? "what is sent is encrypted"
        : is_local               ? "what is sent stays on this machine"
                                 : "passwords and ids travel in the clear");
    simba_request_add_finding(
        request,
        self->grpc.user != NULL ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK, "auth",
        "%s",
        self->grpc.user != NULL
            ? "a user and password are asked for"
            : "whoever reaches the servers may free a mutex");
    ask(admin, SIMBA__ETCD_MEMBERS, take_members);
}

/* --- requests ------------------------------------------------------------ */

void simba__etcd_admin(simba_session_store *store, simba_request *request)
{
    struct admin *admin = calloc(1, sizeof *admin);
    simba_error error;

    if (admin == NULL) {
        simba_error_set(&error, SIMBA_ENOMEM, 0, "etcd: no memory");
        simba_request_done(request, SIMBA_ENOMEM, &error);
        return;
    }
    admin->txn.self = SIMBA__ETCD(store);
    admin->txn.mutex = request->mutex;
    admin->request = request;
    switch (request->kind) {
    case SIMBA_LIST:
        get(admin, "OW", take_list);
        break;
    case SIMBA_BREAK:
        get(admin, "o", take_owner);
        break;
    case SIMBA_DOCTOR:
        ask(admin, SIMBA__ETCD_STATUS, take_status);
        break;
    case SIMBA_REACH:
        ask(admin, SIMBA__ETCD_STATUS, take_reached);
        break;
    default:
        start_read(admin);
        break;
    }
}

/* --- observers ----------------------------------------------------------- */

/* Each change of owner comes by itself, in order; after a gap they look. */
static void on_owner(struct simba__etcd_watched *watch,
                     const simba__etcd_event *event)
{
    struct simba__etcd_mutex *mutex =
        container_of(watch, struct simba__etcd_mutex, watch);
    const char *name = simba_session_mutex_name(&mutex->base);
    struct simba__etcd_owner owner = {0};
    simba_owner told;

    if (event != NULL && event->type == 0) {
        owner = simba__etcd_owner_read(&event->kv);
        if (owner.token == mutex->observed_token) {
            return; /* asked again, or broken */
        }
    }
    told = simba__etcd_owner_told(&owner);
    if (event == NULL || mutex->observed_token == 0) {
        simba_observed(mutex->loop, name, NULL, 0);
    } else {
        simba_observed(mutex->loop, name, &told, mutex->observed_token);
    }
    if (owner.is_there) {
        mutex->observed_token = owner.token;
    }
}

void simba__etcd_observe(simba_session_mutex *base)
{
    struct simba__etcd_mutex *mutex = (struct simba__etcd_mutex *)base;
    struct simba__etcd *self = SIMBA__ETCD(base->store);
    struct simba__etcd_transaction names = {
        .self = self, .mutex = simba_session_mutex_name(base)};
    char key[SIMBA__ETCD_KEY_SIZE];

    simba__etcd_key(&names, 'o', key);
    mutex->loop = self->base.base.loop;
    mutex->observed_token = 0;
    mutex->watch.changed = on_owner;
    mutex->watch.is_history = true;
    if (!simba__etcd_watch_set(self, &mutex->watch,
                               base->is_observed ? key : NULL)) {
        simba__log(&self->log, SIMBA_LOG_WARN,
                   "no memory to watch \"%s\": its observers look now and then",
                   simba_session_mutex_name(base));
    }
}
