/* Both ways of docs/guards.md: by the latch node itself, and by a mark. */
#include "fixtures/paused_owner.h"
#include "resource.h"

#define THREADED /* the calls that wait for their answer */
#include <zookeeper/zookeeper.h>

#include <string.h>

static void ignore(zhandle_t *zh,
                   int type,
                   int state,
                   const char *path,
                   void *context)
{
    (void)zh;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static zhandle_t *dial(void)
{
    const char *hosts = strstr(server_url(), "://") + 3;
    int64_t until = now_ms() + PATIENCE_MS;
    zhandle_t *zh;

    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zh = zookeeper_init(hosts, ignore, 20000, NULL, NULL, 0);
    while (zh != NULL && zoo_state(zh) != ZOO_CONNECTED_STATE &&
           now_ms() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (zh == NULL || zoo_state(zh) != ZOO_CONNECTED_STATE) {
        abort();
    }
    return zh;
}

static void need_node(zhandle_t *zh, const char *path)
{
    int rc = zoo_create(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);

    if (rc != ZOK && rc != ZNODEEXISTS) {
        abort();
    }
}

static int outcome(int rc)
{
    if (rc == ZOK) {
        return SIMBA_OK;
    }
    return rc == ZNONODE || rc == ZBADVERSION ? SIMBA_ELOST : SIMBA_EINTERNAL;
}

static void read_node(const char *path, char *text, size_t room)
{
    zhandle_t *zh = dial();
    int size = (int)room - 1;

    if (zoo_get(zh, path, 0, text, &size, NULL) == ZOK && size >= 0) {
        text[size] = '\0';
    }
    zookeeper_close(zh);
}

/* --- by the latch -------------------------------------------------------- */

/* The token is the czxid of the latch: the child that has it is ours. A path
 * never comes again, so that what is found is what is checked. */
static int find_latch(zhandle_t *zh, uint64_t token, char *path, size_t room)
{
    struct String_vector children = {0, NULL};
    struct Stat stat;
    int rc = zoo_get_children(zh, "/simba/" GUARDED_MUTEX, 0, &children);
    bool is_found = false;

    for (int i = 0; rc == ZOK && i < children.count && !is_found; i++) {
        snprintf(path, room, "/simba/" GUARDED_MUTEX "/%s", children.data[i]);
        is_found = zoo_exists(zh, path, 0, &stat) == ZOK &&
                   (uint64_t)stat.czxid == token;
    }
    deallocate_String_vector(&children);
    return is_found ? ZOK : ZNONODE;
}

static const char by_latch[] = "/data-by-latch";

static int send_checked(zhandle_t *zh, const char *latch, const char *text)
{
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    struct Stat stat;

    zoo_check_op_init(&ops[0], latch, -1);
    zoo_set_op_init(&ops[1], by_latch, text, (int)strlen(text), -1, &stat);
    return zoo_multi(zh, 2, ops, results);
}

/* The paused owner has found its latch long before, so that only the check
 * within the multi can refuse it. */
static int write_by_latch(uint64_t token, const char *text)
{
    static char latch[256];
    static uint64_t found;
    zhandle_t *zh = dial();
    int rc = ZOK;

    need_node(zh, by_latch);
    if (found != token) {
        rc = find_latch(zh, token, latch, sizeof latch);
        found = token;
    }
    rc = rc == ZOK ? send_checked(zh, latch, text) : ZSYSTEMERROR;
    zookeeper_close(zh);
    return outcome(rc);
}

static void read_by_latch(char *text, size_t room)
{
    read_node(by_latch, text, room);
}

/* --- by a mark ----------------------------------------------------------- */

static const char by_mark[] = "/data-by-mark", mark_node[] = "/mark";

static int send_marked(zhandle_t *zh,
                       uint64_t token,
                       const char *text,
                       int version)
{
    char mark[SIMBA_GUARD_TEXT];
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    struct Stat stats[2];

    simba_guard_format(token, mark);
    zoo_set_op_init(&ops[0], mark_node, mark, (int)strlen(mark), version,
                    &stats[0]);
    zoo_set_op_init(&ops[1], by_mark, text, (int)strlen(text), -1, &stats[1]);
    return zoo_multi(zh, 2, ops, results);
}

/* A version that is not there any more is no reason to give up: read again,
 * and decide again. */
static int write_by_mark(uint64_t token, const char *text)
{
    zhandle_t *zh = dial();
    int rc = SIMBA_OK, sent = ZBADVERSION;

    need_node(zh, mark_node);
    need_node(zh, by_mark);
    while (rc == SIMBA_OK && sent == ZBADVERSION) {
        char mark[SIMBA_GUARD_TEXT];
        int size = sizeof mark;
        struct Stat stat;

        if (zoo_get(zh, mark_node, 0, mark, &size, &stat) != ZOK) {
            abort();
        }
        rc = simba_guard_judge(mark, size > 0 ? (size_t)size : 0, token, NULL);
        sent = rc == SIMBA_OK ? send_marked(zh, token, text, stat.version)
                              : ZBADVERSION;
    }
    zookeeper_close(zh);
    return rc == SIMBA_OK ? outcome(sent) : rc;
}

static void read_by_mark(char *text, size_t room)
{
    read_node(by_mark, text, room);
}

const struct way ways[] = {
    {"test_guard_zookeeper_check__refuses_a_paused_owner", write_by_latch,
     read_by_latch},
    {"test_guard_zookeeper_mark__refuses_a_paused_owner", write_by_mark,
     read_by_mark},
    {NULL, NULL, NULL},
};
