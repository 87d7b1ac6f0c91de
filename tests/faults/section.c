#define _GNU_SOURCE
#include "section.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { STEP_US = 4000, SET_MOST = 4 << 20 };

int64_t section_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

int section_length_ms(uint64_t chance, int lease_ms)
{
    int most_ms =
        chance % 8 != 0 ? SECTION_SHORT_US / 1000 : SECTION_LEASES * lease_ms;

    return (int)(chance / 8 % (uint64_t)most_ms);
}

static int open_in(const struct section *s, const char *name, int flags)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", s->directory, name);
    return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

/* Where descriptors have run out, say; that is no crash. */
static _Noreturn void give_up(const char *what)
{
    perror(what);
    _exit(70);
}

/* --- the set ------------------------------------------------------------- */

struct set {
    char *text; /* elements, one to a line; of a fenced one a token first */
    size_t length;
};

static bool is_kind(const struct section *s, const char *kind)
{
    return strncmp(s->mutex, kind, strlen(kind)) == 0;
}

/* The resource itself does one thing at a time; no client of it does more. */
static int lock_resource(const struct section *s)
{
    int fd = open_in(s, "resource.lock", O_RDWR);

    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
        give_up("resource.lock");
    }
    return fd;
}

static void load(const struct section *s, struct set *set)
{
    int fd = open_in(s, s->mutex, O_RDONLY);
    ssize_t count;

    /* Taken for empty, it would be written back so: a loss of nobody's. */
    if (fd < 0) {
        give_up("a set");
    }
    set->text = malloc(SET_MOST);
    set->length = 0;
    while ((count = read(fd, set->text + set->length,
                         SET_MOST - 256 - set->length)) > 0) {
        set->length += (size_t)count;
    }
    set->text[set->length] = '\0';
    close(fd);
}

/* It appears whole, or not at all. */
static void save(const struct section *s, const struct set *set)
{
    char part[512], whole[512];
    int fd;

    snprintf(part, sizeof part, "%s.%d", s->mutex, (int)getpid());
    fd = open_in(s, part, O_WRONLY | O_TRUNC);
    if (fd < 0 || write(fd, set->text, set->length) != (ssize_t)set->length) {
        give_up("a set");
    }
    close(fd);
    snprintf(part, sizeof part, "%s/%s.%d", s->directory, s->mutex,
             (int)getpid());
    snprintf(whole, sizeof whole, "%s/%s", s->directory, s->mutex);
    if (rename(part, whole) != 0) {
        give_up("rename");
    }
}

/* Does the resource take this token? It remembers the greatest. */
static bool admit(const struct section *s, struct set *set)
{
    uint64_t seen = strtoull(set->text, NULL, 10);
    const char *elements = strchr(set->text, '\n');
    char *text;
    int length;

    if (s->token < seen) {
        return false;
    }
    length = asprintf(&text, "%" PRIu64 "%s", s->token,
                      elements == NULL ? "\n" : elements);
    if (length < 0 || length > SET_MOST - 256) {
        give_up("a set");
    }
    memcpy(set->text, text, (size_t)length + 1);
    set->length = (size_t)length;
    free(text);
    return true;
}

static bool begin_set(const struct section *s, struct set *set)
{
    bool is_admitted = true;
    int lock;

    if (!is_kind(s, "fenced")) {
        load(s, set);
        return true;
    }
    lock = lock_resource(s);
    load(s, set);
    is_admitted = admit(s, set);
    if (is_admitted) {
        save(s, set);
    }
    close(lock);
    return is_admitted;
}

static void end_set(const struct section *s, struct set *set, int64_t started)
{
    char element[64], name[128];
    int lock = -1, fd;

    if (is_kind(s, "fenced")) {
        struct set now;
        uint64_t seen;

        lock = lock_resource(s);
        load(s, &now);
        seen = strtoull(now.text, NULL, 10);
        free(now.text);
        if (s->token < seen) {
            close(lock);
            return; /* refused: another has been here since */
        }
    }
    snprintf(element, sizeof element, "\n%d-%" PRId64 " .", (int)getpid(),
             started);
    if (set->length + strlen(element) < SET_MOST - 256) {
        memcpy(set->text + set->length, element, strlen(element));
        set->length += strlen(element);
        save(s, set);
        snprintf(name, sizeof name, "%s.acks", s->mutex);
        fd = open_in(s, name, O_WRONLY | O_APPEND);
        if (write(fd, element, strlen(element)) < 0) {
            give_up("acks");
        }
        close(fd);
    }
    if (lock >= 0) {
        close(lock);
    }
}

/* --- being inside -------------------------------------------------------- */

void section_run(const struct section *s)
{
    int log = open_in(s, "sections", O_WRONLY | O_APPEND);
    int64_t started = section_now_us(), end = started + s->length_ms * 1000;
    bool is_set = is_kind(s, "set") || is_kind(s, "fenced"), is_inside;
    struct set set = {.text = NULL};
    int64_t from;

    if (log < 0) {
        give_up("sections");
    }
    do {
        from = section_now_us();
        is_inside = s->is_owner == NULL || s->is_owner(s->user);
        if (is_inside) {
            dprintf(log,
                    "\n%d %" PRId64 " %" PRIu64 " %s %" PRId64 " %" PRId64 " .",
                    (int)getpid(), started, s->token, s->mutex, from,
                    section_now_us());
        }
        if (is_inside && is_set && set.text == NULL && !begin_set(s, &set)) {
            is_inside = false;
        }
        if (is_inside && from < end) {
            usleep(STEP_US);
        }
    } while (is_inside && from < end);
    if (is_inside && is_set) {
        end_set(s, &set, started);
    }
    free(set.text);
    close(log);
}
