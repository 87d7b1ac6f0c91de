/* A small server with sessions and ordered keys, for simba-rank.c: one process,
 * nothing on disk. It tells its port, and serves until it is killed.
 *
 *     rank-server [PORT]
 *
 * A request is a line of fields with tabs between them, and so is its reply,
 * which begins with "=". What begins with "!" is told to who watches a mutex
 * when its first keys have changed.
 *
 *     hello SESSION             begin a session (0), or go on with one -> its
 * id ping, bye                 a sign of life; the end of the session put MUTEX
 * ATTEMPT JOIN TIMEOUT ID a key at the end; without JOIN only if there is none.
 * The first TIMEOUT is the session's look MUTEX ATTEMPT EVICT  where it stands;
 * the first takes a free mutex. EVICT: the second removes the first, which has
 *                               not come for 300 ms
 *     renew MUTEX ATTEMPT       does it own the mutex?
 *     del MUTEX ATTEMPT BURY    remove it; BURY: and never put it again
 *     read MUTEX, watch MUTEX   watch has no reply
 *
 * A session of which nothing was heard for its timeout ends with its keys. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS = 512,
    ROOM = 8192,
    TICK_MS = 10,
    GRAVES = 1024,
    OFFER_MS = 300,
    TIMEOUT_MS = 30000
};

struct session {
    struct session *next;
    uint64_t id;
    int64_t timeout_ms, heard_ms;
};

struct key {
    struct key *next;
    uint64_t session, position, token; /* token 0: it waits */
    int64_t since_ms;                  /* wall clock */
    char attempt[40], id[132];
};

struct mutex {
    struct mutex *next;
    char name[272];
    struct key *keys;      /* in order; only the first may own */
    int64_t free_ms;       /* since then */
    bool is_overdue;       /* the second was told that the first has not come */
    bool watched[CLIENTS]; /* by these connections */
};

static struct client {
    int fd; /* 0: none */
    uint64_t session;
    size_t used;
    char input[ROOM];
} clients[CLIENTS];

static struct session *sessions;
static struct mutex *mutexes;
static char graves[GRAVES][40];
static unsigned buried;
static uint64_t last_id, last_token;

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(int client, const char *text, size_t size)
{
    if (clients[client].fd > 0) {
        (void)send(clients[client].fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* The next field of a line; "": there is none. */
static const char *next_field(char **rest)
{
    const char *field = strsep(rest, "\t");

    return field == NULL ? "" : field;
}

static struct mutex *find_mutex(const char *name)
{
    struct mutex *m = mutexes;

    while (m != NULL && strcmp(m->name, name) != 0) {
        m = m->next;
    }
    if (m == NULL && (m = calloc(1, sizeof *m)) != NULL) {
        snprintf(m->name, sizeof m->name, "%s", name);
        m->free_ms = clock_ms(CLOCK_BOOTTIME);
        m->next = mutexes;
        mutexes = m;
    }
    return m;
}

/* The first two who wait: the second, should the first not come. */
static void notify(const struct mutex *m)
{
    const struct key *key = m->keys;
    char text[300];
    int size = snprintf(text, sizeof text, "!\t%s\n", m->name);

    for (int i = 0; key != NULL && i < 3; i++, key = key->next) {
        for (int c = 0; c < CLIENTS; c++) {
            if (m->watched[c] && clients[c].session == key->session) {
                say(c, text, (size_t)size);
            }
        }
    }
}

static void remove_key(struct mutex *m, struct key **at)
{
    struct key *key = *at;

    if (key->token != 0) {
        m->free_ms = clock_ms(CLOCK_BOOTTIME);
    }
    m->is_overdue = false;
    *at = key->next;
    free(key);
    notify(m);
}

static struct key **find_key(struct mutex *m, const char *attempt)
{
    struct key **at = &m->keys;

    while (*at != NULL && strcmp((*at)->attempt, attempt) != 0) {
        at = &(*at)->next;
    }
    return at;
}

/* --- replies ------------------------------------------------------------- */

/* "= LETTER TOKEN POSITION AHEAD SINCE OWNER-TOKEN OWNER", and with `all`
 * POSITION ID of each who waits. */
static void answer(int c,
                   const struct mutex *m,
                   const struct key *key,
                   bool all)
{
    const struct key *first = m->keys, *owner = first;
    static char text[1 << 20];
    int ahead = 0, size;

    if (owner != NULL && owner->token == 0) {
        owner = NULL;
    }
    first = owner == NULL ? first : first->next;
    for (const struct key *k = first; k != NULL && k != key; k = k->next) {
        ahead++;
    }
    size = snprintf(text, sizeof text, "=\t%c\t%llu\t%llu\t%d\t%lld\t%llu\t%s",
                    key == NULL       ? 'n'
                    : key->token != 0 ? 'f'
                                      : 'b',
                    key == NULL ? 0ULL : (unsigned long long)key->token,
                    key == NULL ? 0ULL : (unsigned long long)key->position,
                    ahead, owner == NULL ? 0LL : (long long)owner->since_ms,
                    owner == NULL ? 0ULL : (unsigned long long)owner->token,
                    owner == NULL ? "" : owner->id);
    for (; all && first != NULL && size < (int)sizeof text - 200;
         first = first->next) {
        size += snprintf(text + size, sizeof text - (size_t)size, "\t%llu\t%s",
                         (unsigned long long)first->position, first->id);
    }
    text[size++] = '\n';
    say(c, text, (size_t)size);
}

/* --- requests ------------------------------------------------------------ */

static struct session *find_session(uint64_t id)
{
    struct session *s = sessions;

    while (s != NULL && s->id != id) {
        s = s->next;
    }
    return s;
}

static void put(int c, struct mutex *m, const char *attempt, char **rest)
{
    bool join = *next_field(rest) == '1', is_buried = false;
    int64_t timeout_ms = strtoll(next_field(rest), NULL, 10);
    struct session *s = find_session(clients[c].session);
    struct key **at = find_key(m, attempt);

    for (int i = 0; i < GRAVES; i++) {
        is_buried |= strcmp(graves[i], attempt) == 0;
    }
    if (s != NULL && s->timeout_ms == 0) {
        s->timeout_ms = timeout_ms;
    }
    if (*at == NULL && !is_buried && (join || m->keys == NULL) &&
        (*at = calloc(1, sizeof **at)) != NULL) {
        (*at)->session = clients[c].session;
        (*at)->position = ++last_id;
        (*at)->since_ms = clock_ms(CLOCK_REALTIME);
        snprintf((*at)->attempt, sizeof(*at)->attempt, "%s", attempt);
        snprintf((*at)->id, sizeof(*at)->id, "%s", next_field(rest));
    }
}

/* The first takes a free mutex. Tokens grow, also over a restart. */
static void take(struct mutex *m, struct key *key)
{
    uint64_t now = (uint64_t)clock_ms(CLOCK_REALTIME) * 1000;

    if (key != NULL && key == m->keys && key->token == 0) {
        last_token = last_token < now ? now : last_token + 1;
        key->token = last_token;
        key->since_ms = clock_ms(CLOCK_REALTIME);
    }
}

static bool is_left_free(const struct mutex *m)
{
    return m->keys != NULL && m->keys->token == 0 &&
           clock_ms(CLOCK_BOOTTIME) - m->free_ms >= OFFER_MS;
}

static void look(struct mutex *m, const char *attempt, const char *evict)
{
    if (*evict == '1' && is_left_free(m) && m->keys->next != NULL &&
        m->keys->next == *find_key(m, attempt)) {
        remove_key(m, &m->keys);
    }
}

static void del(struct mutex *m, const char *attempt, const char *bury)
{
    struct key **at = find_key(m, attempt);

    if (*bury == '1') {
        snprintf(graves[buried++ % GRAVES], sizeof graves[0], "%s", attempt);
    }
    if (*at != NULL) {
        remove_key(m, at);
    }
}

static void serve_mutex(int c, const char *verb, char *rest)
{
    struct mutex *m = find_mutex(next_field(&rest));
    const char *what = next_field(&rest);
    struct key *key;

    if (strcmp(verb, "watch") == 0) {
        m->watched[c] = true;
        return;
    }
    if (strcmp(verb, "put") == 0) {
        put(c, m, what, &rest);
    } else if (strcmp(verb, "del") == 0) {
        del(m, what, next_field(&rest));
    } else if (strcmp(verb, "look") == 0) {
        look(m, what, next_field(&rest));
    }
    key = *find_key(m, what);
    if (strcmp(verb, "put") == 0 || strcmp(verb, "look") == 0) {
        take(m, key);
    }
    answer(c, m, key, strcmp(verb, "read") == 0);
}

static void end_session(uint64_t id)
{
    for (struct mutex *m = mutexes; m != NULL; m = m->next) {
        for (struct key **at = &m->keys; *at != NULL;) {
            if ((*at)->session == id) {
                remove_key(m, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
    for (struct session **at = &sessions; *at != NULL; at = &(*at)->next) {
        if ((*at)->id == id) {
            struct session *gone = *at;

            *at = gone->next;
            free(gone);
            return;
        }
    }
}

static void hello(int c, char *rest)
{
    struct session *s = find_session(strtoull(next_field(&rest), NULL, 10));
    char text[40];

    if (s == NULL && (s = calloc(1, sizeof *s)) != NULL) {
        s->id = ++last_id;
        s->next = sessions;
        sessions = s;
    }
    if (s == NULL) {
        return;
    }
    s->heard_ms = clock_ms(CLOCK_BOOTTIME);
    clients[c].session = s->id;
    say(c, text,
        (size_t)snprintf(text, sizeof text, "=\t%llu\n",
                         (unsigned long long)s->id));
}

static void serve(int c, char *line)
{
    const char *verb = strsep(&line, "\t");
    struct session *s = find_session(clients[c].session);

    if (strcmp(verb, "hello") == 0) {
        hello(c, line);
        return;
    }
    if (s != NULL) {
        s->heard_ms = clock_ms(CLOCK_BOOTTIME);
    } else if (clients[c].session != 0) {
        say(c, "=\tx\n", 4); /* it has ended */
        return;
    }
    if (line != NULL) {
        serve_mutex(c, verb, line);
    } else {
        if (strcmp(verb, "bye") == 0) {
            end_session(clients[c].session);
        }
        say(c, "=\tok\n", 5);
    }
}

/* --- connections --------------------------------------------------------- */

static void hang_up(int c)
{
    close(clients[c].fd);
    clients[c] = (struct client){0};
    for (struct mutex *m = mutexes; m != NULL; m = m->next) {
        m->watched[c] = false;
    }
}

static void receive(int c)
{
    struct client *client = &clients[c];
    ssize_t count = recv(client->fd, client->input + client->used,
                         ROOM - client->used, MSG_DONTWAIT);
    char *begin = client->input, *end;

    if (count <= 0) {
        hang_up(c);
        return;
    }
    client->used += (size_t)count;
    while ((end = memchr(begin, '\n',
                         client->used - (size_t)(begin - client->input))) !=
           NULL) {
        *end = '\0';
        serve(c, begin);
        begin = end + 1;
    }
    client->used -= (size_t)(begin - client->input);
    memmove(client->input, begin, client->used);
}

static void end_silent(void)
{
    int64_t now = clock_ms(CLOCK_BOOTTIME);

    for (struct session *s = sessions, *next; s != NULL; s = next) {
        next = s->next;
        if (now - s->heard_ms >
            (s->timeout_ms > 0 ? s->timeout_ms : TIMEOUT_MS)) {
            end_session(s->id);
        }
    }
    for (struct mutex *m = mutexes; m != NULL; m = m->next) {
        if (!m->is_overdue && is_left_free(m) && m->keys->next != NULL) {
            m->is_overdue = true;
            notify(m);
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct pollfd set[CLIENTS]; /* the first is for those who come */
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons((uint16_t)(argc > 1 ? strtol(argv[1], NULL, 10) : 0));
    if (bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, CLIENTS) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("rank-server");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        set[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int c = 1; c < CLIENTS; c++) {
            set[c] = (struct pollfd){
                .fd = clients[c].fd > 0 ? clients[c].fd : -1, .events = POLLIN};
        }
        poll(set, CLIENTS, TICK_MS);
        for (int c = 1; c < CLIENTS; c++) {
            if (set[c].revents != 0 && set[c].fd == clients[c].fd) {
                receive(c);
            }
            if (clients[c].fd == 0 && set[0].revents != 0) {
                int fd = accept(listener, NULL, NULL);

                /* Replies and pushes are small, and none waits for another. */
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1},
                           sizeof(int));
                set[0].revents = 0;
                clients[c].fd = fd > 0 ? fd : 0;
            }
        }
        end_silent();
    }
}
