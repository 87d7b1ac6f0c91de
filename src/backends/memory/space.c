/* Spaces: what handles of one name share, for as long as there are any. */
#define _GNU_SOURCE
#include "backends/memory/instance.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct simba__memory_space *spaces;
static uint64_t connections; /* guarded by spaces_lock */

/* S4: the greatest token of a space that was forgotten. The clock alone would
 * not do: within one millisecond it can be closed and opened again. */
static uint64_t greatest_token; /* guarded by spaces_lock */

static struct simba__memory_space *make_space(const char *name)
{
    struct simba__memory_space *space = calloc(1, sizeof *space);

    if (space == NULL || (space->name = strdup(name)) == NULL) {
        free(space);
        return NULL;
    }
    pthread_mutex_init(&space->lock, NULL);
    space->token_floor = greatest_token;
    space->next = spaces;
    spaces = space;
    return space;
}

static void free_space(struct simba__memory_space *space)
{
    for (struct simba__memory_row *e = space->entries, *next; e != NULL;
         e = next) {
        next = e->next;
        if (e->row.last_token > greatest_token) {
            greatest_token = e->row.last_token;
        }
        simba__mutex_fini(&e->row);
        free(e);
    }
    pthread_mutex_destroy(&space->lock);
    free(space->name);
    free(space);
}

struct simba__memory_space *simba__memory_enter(const char *name,
                                                struct simba__memory *memory)
{
    struct simba__memory_space *space;

    pthread_mutex_lock(&spaces_lock);
    for (space = spaces; space != NULL; space = space->next) {
        if (strcmp(space->name, name) == 0) {
            break;
        }
    }
    if (space == NULL) {
        space = make_space(name);
    }
    if (space != NULL) {
        space->users++;
        memory->connection = ++connections;
    }
    pthread_mutex_unlock(&spaces_lock);
    return space;
}

void simba__memory_leave(struct simba__memory_space *space)
{
    pthread_mutex_lock(&spaces_lock);
    if (--space->users == 0) {
        struct simba__memory_space **s = &spaces;
        while (*s != space) {
            s = &(*s)->next;
        }
        *s = space->next;
        free_space(space);
    }
    pthread_mutex_unlock(&spaces_lock);
}

void simba__memory_forget_all(void)
{
    pthread_mutex_init(&spaces_lock, NULL);
    spaces = NULL;
}

/* --- what is in one, with it locked ----------------------------------------
 */

struct simba__memory *simba__memory_handle(struct simba__memory_space *space,
                                           uint64_t connection)
{
    struct simba__memory *m = space->handles;

    while (m != NULL && m->connection != connection) {
        m = m->next;
    }
    return m;
}

struct simba__memory_row *simba__memory_find(struct simba__memory_space *space,
                                             const char *mutex)
{
    struct simba__memory_row *e = space->entries;

    while (e != NULL && strcmp(e->mutex, mutex) != 0) {
        e = e->next;
    }
    if (e == NULL && (e = calloc(1, sizeof *e)) != NULL) {
        simba__mutex_init(&e->row);
        e->row.last_token = space->token_floor;
        memcpy(e->mutex, mutex, strlen(mutex) + 1);
        e->next = space->entries;
        space->entries = e;
    }
    return e;
}
