#define _GNU_SOURCE
#include "runtime/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Recursive: who holds off forks adds and removes entries meanwhile. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct simba__fork_entry *entries;
static simba__fork_mark mark; /* of this process, or wiped */
static bool is_registered;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    for (struct simba__fork_entry *e = entries; e != NULL; e = e->next) {
        e->forked(e->self);
    }
    entries = NULL;
    /* A recursive lock knows its owner by a number that is the parent's. */
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/* Once for the process and all its descendants: they inherit the handlers. */
static bool register_handlers(void)
{
    if (!is_registered) {
        is_registered = pthread_atfork(before_fork, after_fork_in_parent,
                                       after_fork_in_child) == 0;
    }
    return is_registered;
}

static simba__fork_mark make_mark(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, size, MADV_WIPEONFORK) != 0 || !register_handlers()) {
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
    pthread_mutex_lock(&lock);
}

void simba__fork_let_go(void)
{
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    for (struct simba__fork_entry **e = &entries; *e != NULL; e = &(*e)->next) {
        if (*e == entry) {
            *e = entry->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}
