#define _GNU_SOURCE
#include "runtime/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct simba__fork_entry *entries;
static volatile const unsigned char *mark; /* 1 here, 0 in a child */

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
    pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *page = mmap(NULL, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, size, MADV_WIPEONFORK) != 0 ||
        pthread_atfork(before_fork, after_fork_in_parent,
                       after_fork_in_child) != 0) {
        munmap(page, size);
        return;
    }
    *page = 1;
    mark = page;
}

bool simba__fork_guard(void)
{
    pthread_once(&once, prepare);
    return mark != NULL;
}

bool simba__is_forked(void)
{
    return mark != NULL && *mark == 0;
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
