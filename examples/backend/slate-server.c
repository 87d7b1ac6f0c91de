/* A small server that keeps values, for simba-slate.c: one process, nothing on
 * disk. It tells its port, and serves until it is killed.
 *
 *     slate-server [PORT]
 *
 * A request is a line of fields with tabs between them, and so is its reply,
 * which begins with "=".
 *
 *     hello NUMBER             this connection is of that handle -> =
 *     ping                     -> =
 *     get MUTEX                -> = VERSION TIME SIZE NUMBER… with a tab behind
 *                              each, and the value: TIME is the clock in ms,
 *                              the numbers are of handles that are connected
 *     put MUTEX VERSION NUMBER NUMBER SIZE, and the value: write it, if VERSION
 *                              is that of the value that is there, and tell
 *                              these handles "! MUTEX" -> =, or as get
 *
 * Versions grow, and so does the clock, also over a restart, with which every
 * value is lost; the clock makes no steps. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 512, HEAD = 512, PIECE = 65536, INPUT_MOST = 1 << 22 };

struct buffer {
    char *bytes;
    size_t size, room;
};

struct value {
    struct value *next;
    char *mutex;
    struct buffer text;
    uint64_t version; /* 0: never written */
};

static struct client {
    int fd; /* 0: none */
    uint64_t number;
    struct buffer in, out;
} clients[CLIENTS];

static struct value *values;
static int64_t began_ms;
static uint64_t last_version;

static int64_t clock_ms(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t now_ms(void)
{
    return began_ms + clock_ms(CLOCK_BOOTTIME);
}

static void add(struct buffer *buffer, const void *bytes, size_t size)
{
    if (buffer->room - buffer->size < size) {
        buffer->room = (buffer->size + size) * 2;
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        if (buffer->bytes == NULL) {
            abort();
        }
    }
    if (size > 0) {
        memcpy(buffer->bytes + buffer->size, bytes, size);
        buffer->size += size;
    }
}

static void use(struct buffer *buffer, size_t size)
{
    buffer->size -= size;
    if (size > 0) {
        memmove(buffer->bytes, buffer->bytes + size, buffer->size);
    }
}

static void say(struct client *client, const char *text)
{
    add(&client->out, text, strlen(text));
}

/* --- requests ------------------------------------------------------------ */

static struct value *find(const char *mutex)
{
    struct value *v = values;

    while (v != NULL && strcmp(v->mutex, mutex) != 0) {
        v = v->next;
    }
    if (v == NULL && (v = calloc(1, sizeof *v)) != NULL) {
        v->mutex = strdup(mutex);
        v->next = values;
        values = v;
    }
    return v;
}

static void tell_value(struct client *client, const struct value *v)
{
    char text[100];

    snprintf(text, sizeof text, "=\t%" PRIu64 "\t%" PRId64 "\t%zu", v->version,
             now_ms(), v->text.size);
    say(client, text);
    for (int c = 0; c < CLIENTS; c++) {
        if (clients[c].number != 0) {
            snprintf(text, sizeof text, "\t%" PRIu64, clients[c].number);
            say(client, text);
        }
    }
    say(client, "\t\n");
    add(&client->out, v->text.bytes, v->text.size);
}

static void notify(uint64_t number, const char *mutex)
{
    for (int c = 0; number != 0 && c < CLIENTS; c++) {
        if (clients[c].number == number) {
            say(&clients[c], "!\t");
            say(&clients[c], mutex);
            say(&clients[c], "\n");
        }
    }
}

static void put(struct client *client,
                struct value *v,
                const uint64_t numbers[4],
                const char *bytes)
{
    uint64_t micros = (uint64_t)now_ms() * 1000;

    if (numbers[0] != v->version) {
        tell_value(client, v);
        return;
    }
    v->text.size = 0;
    add(&v->text, bytes, (size_t)numbers[3]);
    last_version = last_version < micros ? micros : last_version + 1;
    v->version = last_version;
    notify(numbers[1], v->mutex);
    notify(numbers[2], v->mutex);
    say(client, "=\n");
}

/* One request. How many bytes it had; 0: it has not come as a whole. */
static size_t serve(struct client *client, const char *bytes, size_t size)
{
    const char *end = memchr(bytes, '\n', size);
    size_t length = end == NULL ? 0 : (size_t)(end - bytes) + 1;
    char head[HEAD], *rest = head;
    uint64_t numbers[4] = {0};
    const char *verb, *mutex;

    if (length == 0) {
        return 0;
    }
    snprintf(head, sizeof head, "%.*s", (int)length - 1, bytes);
    verb = strsep(&rest, "\t");
    mutex = strsep(&rest, "\t");
    for (int i = 0; i < 4 && rest != NULL; i++) {
        numbers[i] = strtoull(strsep(&rest, "\t"), NULL, 10);
    }
    if (numbers[3] > size - length) {
        return 0;
    }
    if (strcmp(verb, "put") == 0 && mutex != NULL) {
        put(client, find(mutex), numbers, bytes + length);
    } else if (strcmp(verb, "get") == 0 && mutex != NULL) {
        tell_value(client, find(mutex));
    } else {
        if (strcmp(verb, "hello") == 0 && mutex != NULL) {
            client->number = strtoull(mutex, NULL, 10);
        }
        say(client, "=\n");
    }
    return length + (size_t)numbers[3];
}

/* --- connections --------------------------------------------------------- */

static void hang_up(struct client *client)
{
    close(client->fd);
    free(client->in.bytes);
    free(client->out.bytes);
    *client = (struct client){0};
}

static void receive(struct client *client)
{
    char piece[PIECE];
    ssize_t count = recv(client->fd, piece, sizeof piece, MSG_DONTWAIT);
    size_t used, done = 0;

    if (count <= 0 || client->in.size > INPUT_MOST) {
        hang_up(client);
        return;
    }
    add(&client->in, piece, (size_t)count);
    while ((used = serve(client, client->in.bytes + done,
                         client->in.size - done)) > 0) {
        done += used;
    }
    use(&client->in, done);
}

static void transmit(struct client *client)
{
    ssize_t count = send(client->fd, client->out.bytes, client->out.size,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

    use(&client->out, count > 0 ? (size_t)count : 0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct pollfd set[CLIENTS]; /* the first is for those who come */
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    began_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons((uint16_t)(argc > 1 ? strtol(argv[1], NULL, 10) : 0));
    if (bind(listener, (struct sockaddr *)&address, length) != 0 ||
        listen(listener, CLIENTS) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("slate-server");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        set[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (int c = 1; c < CLIENTS; c++) {
            set[c].fd = clients[c].fd > 0 ? clients[c].fd : -1;
            set[c].events = POLLIN | (clients[c].out.size > 0 ? POLLOUT : 0);
        }
        poll(set, CLIENTS, -1);
        for (int c = 1; c < CLIENTS; c++) {
            if (set[c].fd > 0 && (set[c].revents & ~POLLOUT) != 0) {
                receive(&clients[c]);
            }
            if (clients[c].fd == 0 && (set[0].revents & POLLIN) != 0) {
                int fd = accept(listener, NULL, NULL);

                set[0].revents = 0;
                clients[c].fd = fd > 0 ? fd : 0;
            }
        }
        for (int c = 1; c < CLIENTS; c++) {
            if (clients[c].out.size > 0) {
                transmit(&clients[c]);
            }
        }
    }
}
