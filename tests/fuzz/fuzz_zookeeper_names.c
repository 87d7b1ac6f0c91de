/* What others wrote into ZooKeeper: names of nodes and what they hold. The
 * input is a list of names, each on a line; the first holds an owner's id. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "backends/zookeeper/zookeeper.h"
#include "core/name.h"

enum { NODES_MOST = 64 };

/* What is a mutex of ours is escaped the way it was written by us, or could be
 * written twice. */
static void read_name(const char *node)
{
    char mutex[SIMBA_MUTEX_MAX_BYTES + 1];
    char escaped[SIMBA__ZK_ESCAPED_SIZE], again[SIMBA_MUTEX_MAX_BYTES + 1];

    if (simba__zk_unescape(node, mutex) &&
        simba__name_check_mutex(mutex, strlen(mutex)) == SIMBA__NAME_FINE) {
        simba__zk_escape(mutex, escaped);
        FUZZ_CHECK(simba__zk_unescape(escaped, again));
        FUZZ_CHECK(strcmp(mutex, again) == 0);
    }
    (void)simba__zk_position(node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end =
        size == 0 ? NULL : memchr(data, '\n', size); /* of the owner's id */
    size_t length = end == NULL ? size : (size_t)(end - data);
    char *text = fuzz_text(data + length, size - length), *rest = text, *one;
    char *id = malloc(length + 1);
    char *nodes[NODES_MOST];
    simba__zk_queue queue;
    simba__zk_reply reply = {.data = id};
    simba_owner owner;
    int count = 0;

    FUZZ_CHECK(id != NULL);
    memcpy(id, data, length);
    id[length] = '\0'; /* as simba__zk_reply_read() has it */
    reply.length = (int)length;
    owner = simba__zk_owner_of(&reply, simba__zk_slots(id));
    FUZZ_CHECK(strlen(owner.id) <= SIMBA_ID_MAX && owner.id[0] != '\0');
    free(id);
    while (count < NODES_MOST && (one = strsep(&rest, "\n")) != NULL) {
        nodes[count] = strdup(one);
        FUZZ_CHECK(nodes[count] != NULL);
        read_name(nodes[count++]);
    }
    simba__zk_queue_read(&queue, nodes, count);
    FUZZ_CHECK(queue.count <= count && queue.owned <= queue.count);
    for (int i = 0; i < queue.count; i++) {
        FUZZ_CHECK(simba__zk_find_prefix(&queue, queue.nodes[i]) >= 0);
        FUZZ_CHECK(simba__zk_find(&queue, simba__zk_position(queue.nodes[i])) <
                   queue.count);
        if (i >= queue.owned) {
            FUZZ_CHECK((int)simba__zk_watched(&queue, i).other < i);
        }
    }
    while (count > 0) {
        free(nodes[--count]);
    }
    free(text);
    return 0;
}
