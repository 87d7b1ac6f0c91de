#define _GNU_SOURCE
#include "runtime/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two locks, taken in this order. Who holds off forks may wait for a server
 * meanwhile, and may enter a loop; those who add an entry from inside a loop
 * must not wait for that. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct simba__fork_entry *entries;
static simba__fork_mark mark; /* of this process, or wiped */
static bool is_registered;

static void before_fork(void)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_lock(&lock);
}

static void unlock_both(void)
{
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&gate);
}

static void after_fork_in_child(void)
{
    for (struct simba__fork_entry *e = entries; e != NULL; e = e->next) {
        e->forked(e->self);
    }
    entries = NULL;
    unlock_both();
}

static simba__fork_mark make_mark(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return NULL;
    }
    /* Once for the process and all its descendants: they inherit the
     * handlers. */
    is_registered = is_registered || pthread_atfork(before_fork, unlock_both,
                                                    after_fork_in_child) == 0;
    if (!is_registered || madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return NULL;
    }
    *page = 1;
    return page;
}

simba__fork_mark simba__fork_guard(void)
{
    simba__fork_mark mine;

    pthread_mutex_lock(&lock);
    if (mark == NULL || *mark == 0) {
        mark = make_mark();
    }
    mine = mark;
    pthread_mutex_unlock(&lock);
    return mine;
}

void simba__fork_hold_off(void)
{
    pthread_mutex_lock(&gate);
}

void simba__fork_let_go(void)
{
    pthread_mutex_unlock(&gate);
}

void simba__fork_add(struct simba__fork_entry *entry)
{
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
}

void simba__fork_remove(struct simba__fork_entry *entry)
{
    struct simba__fork_entry **e = &entries;

    pthread_mutex_lock(&lock);
    while (*e != NULL && *e != entry) {
        e = &(*e)->next;
    }
    if (*e != NULL) {
        *e = entry->next;
    }
    pthread_mutex_unlock(&lock);
}
