/* What simba serve is told from outside: requests, while its store tells names,
 * ids, reasons and times as they come. What it answers must be JSON, or what
 * Prometheus reads, in valid UTF-8; nothing is broken without the key of a page
 * and a user.
 *
 * libmicrohttpd is the target's own, without threads: what it hands on is the
 * input's; with the true one hostile.py does the like. The first byte chooses
 * who may ask, the next two say how many bytes the store has to tell, the rest
 * is the request. Texts of the store end with a NUL. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

/* For what they keep to themselves. Jobs are done on the spot. */
/* NOLINTBEGIN(bugprone-suspicious-include) */
#define simba__worker_post simba__post_to_thread
#include "../../tools/serve/watch.c"
#undef simba__worker_post
bool simba__worker_post(struct simba__worker *worker, struct simba__job *job);
#include "../../tools/serve/access.c"
#include "../../tools/serve/http.c"
#include "../../tools/serve/stream.c"
/* NOLINTEND(bugprone-suspicious-include) */

#include "backends/memory/memory.h"

#include <simba/sys/backend.h>
#include <simba/sys/request.h>

enum { TEXTS_MOST = 200, VALUES_MOST = 64, EVENTS_MOST = 4 << 20 };

static const char fixed_key[] = "0123456789abcdef0123456789abcdef";
static struct simba__board board = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .changed = PTHREAD_COND_INITIALIZER};
static struct simba__source source = {.board = &board, .shown = "memory:"};
static char users[] = "/tmp/fuzz-serve-XXXXXX";

/* The input that is being served. */
static struct {
    const char *texts[TEXTS_MOST];
    size_t count;
    const uint8_t *data;
    size_t size;
} input;

/* --- a store that says anything ------------------------------------------ */

/* For what a name's bytes decide. */
static uint64_t number_of(size_t i)
{
    const char *text = input.texts[i % input.count];

    return simba__fnv64(text, strlen(text)) + i;
}

static int64_t time_of(uint64_t number)
{
    const int64_t times[] = {0,         simba__unix_ms(), INT64_MAX - 1,
                             INT64_MAX, INT64_MIN,        -1};

    return times[number % (sizeof times / sizeof times[0])];
}

static void put_text(char *to, size_t room, size_t i)
{
    (void)snprintf(to, room, "%s", input.texts[i % input.count]);
}

/* Owners are few, so that what is told of a token finds its mutex. */
static simba_owner make_owner(size_t i)
{
    uint64_t number = number_of(i);
    simba_owner owner = {.token = number >> 8 & 3,
                         .is_broken = (number >> 10 & 7) == 0,
                         .slots = number >> 13 & 3,
                         .slot = number >> 15 & 3,
                         .acquired_at_ms = time_of(number >> 17 & 255),
                         .ttl_at_ms = time_of(number >> 25 & 255),
                         .transition_at_ms = time_of(number >> 33 & 255)};

    put_text(owner.id, sizeof owner.id, i + 1);
    return owner;
}

static void answer_list(simba_request *request)
{
    for (size_t i = 0; i < input.count; i++) {
        simba_owner owner = make_owner(i);

        simba_request_add_mutex(request, input.texts[i], &owner,
                                (int)(number_of(i) >> 41 & 3) - 1);
        for (uint32_t k = 1; k < owner.slots; k++) {
            owner.token++;
            simba_request_add_owner(request, &owner);
        }
    }
}

static void answer_read(simba_request *request)
{
    request->reply.owner = make_owner(0);
    for (size_t i = 0; i < input.count; i++) {
        simba_waiter waiter = {.position = number_of(i),
                               .joined_at_ms = time_of(number_of(i))};

        put_text(waiter.id, sizeof waiter.id, i);
        simba_request_add_waiter(request, &waiter);
    }
}

static void answer_notes(simba_request *request)
{
    for (size_t i = 0; i < input.count; i++) {
        simba_broken broken = {.token = number_of(i),
                               .unix_ms = time_of(number_of(i))};

        put_text(broken.mutex, sizeof broken.mutex, i);
        put_text(broken.id, sizeof broken.id, i + 1);
        put_text(broken.reason, sizeof broken.reason, i + 2);
        if (request->kind == SIMBA_BREAKS) {
            simba_request_add_broken(request, &broken);
        } else {
            simba_request_add_told(request, broken.mutex, number_of(i) >> 8 & 3,
                                   input.texts[(i + 1) % input.count]);
        }
    }
}

/* Only by a page of ours, and by a user. */
static void answer_break(simba_request *request)
{
    const struct simba__access *given = &access_.given;

    FUZZ_CHECK(given->may_break);
    FUZZ_CHECK(given->auth_file != NULL || given->auth_header != NULL);
    FUZZ_CHECK(memmem(input.data, input.size, fixed_key,
                      sizeof fixed_key - 1) != NULL);
    FUZZ_CHECK(strstr(request->reason, ", by simba serve: ") != NULL);
    FUZZ_CHECK(given->auth_file == NULL ||
               strncmp(request->reason, "a@", 2) == 0);
    request->reply.mine = true;
}

static int open_fuzz(const simba_backend_config *config,
                     simba_backend **backend,
                     simba_error *error)
{
    static simba_backend base;

    (void)error;
    base = (simba_backend){&simba__memory_ops, config->loop};
    *backend = &base;
    return SIMBA_OK;
}

static void submit_fuzz(simba_backend *self, simba_request *request)
{
    (void)self;
    request->reply.store_ms =
        input.count == 0 ? 0 : time_of(number_of(0) >> 49 & 255);
    if (request->kind == SIMBA_LIST) {
        answer_list(request);
    } else if (request->kind == SIMBA_READ && input.count > 0) {
        answer_read(request);
    } else if (request->kind == SIMBA_TOLD || request->kind == SIMBA_BREAKS) {
        answer_notes(request);
    } else if (request->kind == SIMBA_BREAK) {
        answer_break(request);
    } else if (request->kind == SIMBA_DOCTOR) {
        for (size_t i = 0; i < input.count; i++) {
            simba_request_add_finding(request, SIMBA_FINDING_WEAK,
                                      input.texts[i], "%s", input.texts[i]);
        }
    }
    simba_request_done(request, SIMBA_OK, NULL);
}

static void close_fuzz(simba_backend *self)
{
    (void)self;
}

/* In place of the library's own. */
const simba_backend_ops simba__memory_ops = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "memory",
    .least_lease_ms = 100,
    .open = open_fuzz,
    .submit = submit_fuzz,
    .close = close_fuzz,
    .capabilities = SIMBA_CAN_LIST | SIMBA_CAN_BREAK | SIMBA_CAN_DOCTOR |
                    SIMBA_CAN_TELL | SIMBA_TELLS_BREAKS | SIMBA_CAN_SLOTS |
                    SIMBA_NUMBERS_SLOTS};

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void __wrap_syslog(int priority, const char *format, ...);

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void __wrap_syslog(int priority, const char *format, ...)
{
    (void)priority;
    (void)format;
}

/* --- what it may answer -------------------------------------------------- */

static void check_utf8(const char *text, size_t length)
{
    while (length > 0) {
        size_t step = simba__text_sequence(text, length);

        FUZZ_CHECK(step > 0);
        text += step;
        length -= step;
    }
}

/* One value, at `at`; what comes after it. */
static const char *check_json(const char *at, const char *end, int depth)
{
    char closing = *at == '{' ? '}' : ']';

    FUZZ_CHECK(at < end && depth < 16);
    if (*at == '"') {
        for (at++; at < end && *at != '"'; at++) {
            FUZZ_CHECK((unsigned char)*at >= ' ');
            if (*at == '\\') {
                at++;
                FUZZ_CHECK(strchr("\"\\/bfnrtu", *at) != NULL);
            }
        }
        FUZZ_CHECK(at < end);
        return at + 1;
    }
    if (*at == '{' || *at == '[') {
        for (at++; *at != closing;) {
            if (closing == '}') {
                FUZZ_CHECK(*at == '"');
                at = check_json(at, end, depth + 1);
                FUZZ_CHECK(*at == ':');
                at++;
            }
            at = check_json(at, end, depth + 1);
            FUZZ_CHECK(*at == ',' || *at == closing);
            at += *at == ',';
        }
        return at + 1;
    }
    if (strncmp(at, "null", 4) == 0 || strncmp(at, "true", 4) == 0) {
        return at + 4;
    }
    if (strncmp(at, "false", 5) == 0) {
        return at + 5;
    }
    at += *at == '-';
    FUZZ_CHECK(*at >= '0' && *at <= '9');
    return at + strspn(at, "0123456789.");
}

/* name{label="…",…} number */
static void check_figures(const char *at)
{
    for (; *at != '\0'; at++) {
        if (*at == '#') {
            at += strcspn(at, "\n");
            continue;
        }
        FUZZ_CHECK(strncmp(at, "simba_", 6) == 0);
        at += strcspn(at, "{ \n");
        while (*at == '{' || *at == ',') {
            at++;
            at += strcspn(at, "=\"\n");
            FUZZ_CHECK(at[0] == '=' && at[1] == '"');
            for (at += 2; *at != '"'; at++) {
                FUZZ_CHECK(*at != '\n' && *at != '\0');
                at += *at == '\\';
            }
            at++;
        }
        at += *at == '}';
        FUZZ_CHECK(*at == ' ');
        at++;
        FUZZ_CHECK(*at == '-' || (*at >= '0' && *at <= '9'));
        at += strcspn(at, "\n");
    }
}

static void check_reply(const char *type, const char *body, size_t length)
{
    check_utf8(body, length);
    if (strncmp(type, "application/json", 16) == 0) {
        FUZZ_CHECK(check_json(body, body + length, 0) == body + length - 1);
    } else if (strstr(type, "version=0.0.4") != NULL) {
        check_figures(body);
    }
}

/* Lines of events, each with data that is JSON. */
static void check_events(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        FUZZ_CHECK(text[length] == '\n');
        if (strncmp(text, "data: ", 6) == 0) {
            check_utf8(text, length);
            FUZZ_CHECK(check_json(text + 6, text + length, 0) == text + length);
        } else {
            FUZZ_CHECK(length == 0 || strncmp(text, "event: ", 7) == 0 ||
                       strncmp(text, "retry: ", 7) == 0);
        }
        text += length + 1;
    }
}

/* --- libmicrohttpd ------------------------------------------------------- */

struct value {
    const char *name, *value;
};

struct MHD_Connection {
    struct value headers[VALUES_MOST], arguments[VALUES_MOST];
    size_t header_count, argument_count;
    void *link; /* on_connection()'s */
    union MHD_ConnectionInfo info;
    struct simba__job *job;
    bool is_suspended, is_answered;
};

struct MHD_Response {
    char *bytes; /* ends with a NUL */
    size_t length;
    char type[128];
    MHD_ContentReaderCallback read;
    MHD_ContentReaderFreeCallback free;
    void *user;
};

static struct MHD_Connection *asking; /* the one there is */

bool simba__worker_post(struct simba__worker *worker, struct simba__job *job)
{
    (void)worker;
    FUZZ_CHECK(asking->is_suspended && asking->job == NULL);
    asking->job = job;
    return true;
}

const char *MHD_lookup_connection_value(struct MHD_Connection *connection,
                                        enum MHD_ValueKind kind,
                                        const char *key)
{
    bool is_header = kind == MHD_HEADER_KIND;
    const struct value *values =
        is_header ? connection->headers : connection->arguments;
    size_t count =
        is_header ? connection->header_count : connection->argument_count;

    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(values[i].name, key) == 0) {
            return values[i].value;
        }
    }
    return NULL;
}

int MHD_get_connection_values(struct MHD_Connection *connection,
                              enum MHD_ValueKind kind,
                              MHD_KeyValueIterator take,
                              void *user)
{
    size_t i = 0;

    FUZZ_CHECK(kind == MHD_HEADER_KIND);
    while (i < connection->header_count &&
           take(user, kind, connection->headers[i].name,
                connection->headers[i].value) == MHD_YES) {
        i++;
    }
    return (int)i;
}

/* Here the header says user:password as they are. */
char *MHD_basic_auth_get_username_password(struct MHD_Connection *connection,
                                           char **password)
{
    const char *value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                    "Authorization");
    const char *colon = value == NULL ? NULL : strchr(value, ':');

    *password = colon == NULL ? NULL : strdup(colon + 1);
    return value == NULL   ? NULL
           : colon == NULL ? strdup(value)
                           : strndup(value, (size_t)(colon - value));
}

const union MHD_ConnectionInfo *MHD_get_connection_info(
    struct MHD_Connection *connection,
    enum MHD_ConnectionInfoType type,
    ...)
{
    if (type == MHD_CONNECTION_INFO_CONNECTION_FD) {
        connection->info.connect_fd = -1;
    } else {
        connection->info.socket_context = connection->link;
    }
    return &connection->info;
}

void MHD_free(void *bytes)
{
    free(bytes);
}

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    FUZZ_CHECK(!connection->is_suspended);
    connection->is_suspended = true;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    FUZZ_CHECK(connection->is_suspended);
    connection->is_suspended = false;
}

struct MHD_Response *MHD_create_response_from_buffer(
    size_t size,
    void *buffer,
    enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = calloc(1, sizeof *response);

    FUZZ_CHECK(response != NULL);
    response->bytes = calloc(1, size + 1);
    FUZZ_CHECK(response->bytes != NULL);
    if (size > 0) {
        memcpy(response->bytes, buffer, size);
    }
    response->length = size;
    if (mode == MHD_RESPMEM_MUST_FREE) {
        free(buffer);
    }
    return response;
}

struct MHD_Response *MHD_create_response_from_callback(
    uint64_t size,
    size_t block,
    MHD_ContentReaderCallback read,
    void *user,
    MHD_ContentReaderFreeCallback end)
{
    struct MHD_Response *response = calloc(1, sizeof *response);

    (void)block;
    FUZZ_CHECK(response != NULL && size == MHD_SIZE_UNKNOWN);
    response->read = read;
    response->free = end;
    response->user = user;
    return response;
}

/* No words of others begin a new header. */
enum MHD_Result MHD_add_response_header(struct MHD_Response *response,
                                        const char *header,
                                        const char *content)
{
    FUZZ_CHECK(strpbrk(content, "\r\n") == NULL);
    if (strcmp(header, "Content-Type") == 0) {
        (void)snprintf(response->type, sizeof response->type, "%s", content);
    }
    return MHD_YES;
}

/* What a page reads: all there is, what changes then, and no more. */
static void read_events(struct MHD_Response *response)
{
    char *all = calloc(1, EVENTS_MOST + 1);
    struct simba__text text = {0};
    size_t length = 0;
    ssize_t count;
    bool is_more = true;

    FUZZ_CHECK(all != NULL);
    for (;;) {
        count = response->read(response->user, length, all + length,
                               EVENTS_MOST - length);
        FUZZ_CHECK(count >= 0 && length + (size_t)count < EVENTS_MOST);
        length += (size_t)count;
        if (count == 0 && !is_more) {
            break;
        }
        if (count == 0) {
            is_more = false;
            FUZZ_CHECK(asking->is_suspended);
            put_changes(&text);
            push_frame(make_frame(&text));
        }
    }
    check_events(all);
    for (struct simba__page *page = stream.pages; page != NULL;
         page = page->next) {
        page->is_suspended = false;
    }
    asking->is_suspended = false;
    free(all);
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *connection,
                                   unsigned status,
                                   struct MHD_Response *response)
{
    FUZZ_CHECK(!connection->is_answered && !connection->is_suspended);
    FUZZ_CHECK(status >= 200 && status < 600 && status != 500);
    connection->is_answered = true;
    if (response->read != NULL) {
        read_events(response);
    } else {
        check_reply(response->type, response->bytes, response->length);
    }
    return MHD_YES;
}

enum MHD_Result MHD_queue_basic_auth_fail_response(
    struct MHD_Connection *connection,
    const char *realm,
    struct MHD_Response *response)
{
    (void)realm;
    return MHD_queue_response(connection, MHD_HTTP_UNAUTHORIZED, response);
}

void MHD_destroy_response(struct MHD_Response *response)
{
    if (response->free != NULL) {
        response->free(response->user);
    }
    free(response->bytes);
    free(response);
}

struct MHD_Daemon *MHD_start_daemon(unsigned flags,
                                    uint16_t port,
                                    MHD_AcceptPolicyCallback accept,
                                    void *accept_user,
                                    MHD_AccessHandlerCallback handle,
                                    void *user,
                                    ...)
{
    (void)flags;
    (void)port;
    (void)accept;
    (void)accept_user;
    (void)handle;
    (void)user;
    return NULL;
}

/* --- a request ----------------------------------------------------------- */

/* "a=b&c": in place, as libmicrohttpd reads it. */
static void read_arguments(struct MHD_Connection *connection, char *text)
{
    char *pair;

    while (text != NULL && connection->argument_count < VALUES_MOST) {
        struct value *value =
            &connection->arguments[connection->argument_count];

        pair = strsep(&text, "&");
        value->name = strsep(&pair, "=");
        value->value = pair;
        for (char *c = pair; c != NULL && *c != '\0'; c++) {
            if (*c == '+') {
                *c = ' ';
            }
        }
        if (pair != NULL) {
            (void)simba__text_unescape(pair);
        }
        connection->argument_count++;
    }
}

static void read_headers(struct MHD_Connection *connection, char *text)
{
    char *line;

    while ((line = strsep(&text, "\n")) != NULL &&
           connection->header_count < VALUES_MOST) {
        struct value *value = &connection->headers[connection->header_count];

        line[strcspn(line, "\r")] = '\0';
        value->name = strsep(&line, ":");
        value->value = line == NULL ? "" : line + strspn(line, " ");
        connection->header_count++;
    }
}

/* It comes in two parts. */
static void send_body(struct MHD_Connection *connection,
                      void **context,
                      const char *path,
                      const char *method,
                      const char *body,
                      size_t length)
{
    const size_t parts[] = {length / 2, length - length / 2};

    for (size_t i = 0; i < 2; i++) {
        size_t left = parts[i];

        if (left > 0) {
            FUZZ_CHECK(on_request(NULL, connection, path, method, "HTTP/1.1",
                                  body, &left, context) == MHD_YES);
            FUZZ_CHECK(left == 0);
        }
        body += parts[i];
    }
}

static void ask(char *request, size_t size)
{
    struct MHD_Connection connection = {.header_count = 0};
    char *end = memmem(request, size, "\n\n", 2);
    size_t body = end == NULL ? size : (size_t)(end - request) + 2;
    char *headers_at = strchr(request, '\n'), *path = request;
    char *method = strsep(&path, " \n");
    void *context = NULL;
    size_t none = 0;

    if (end != NULL) {
        *end = '\0';
    }
    if (headers_at != NULL && headers_at <= request + body) {
        *headers_at = '\0';
        read_headers(&connection, headers_at + 1);
    }
    path = path == NULL ? method + strlen(method) : path;
    path[strcspn(path, " \r\n")] = '\0';
    if (strchr(path, '?') != NULL) {
        char *query = strchr(path, '?');

        *query = '\0';
        read_arguments(&connection, query + 1);
    }
    asking = &connection;
    on_connection(NULL, &connection, &connection.link,
                  MHD_CONNECTION_NOTIFY_STARTED);
    FUZZ_CHECK(on_request(NULL, &connection, path, method, "HTTP/1.1", NULL,
                          &none, &context) == MHD_YES);
    send_body(&connection, &context, path, method, request + body, size - body);
    for (int i = 0; i < 4 && !connection.is_answered; i++) {
        struct simba__job *job;

        none = 0;
        FUZZ_CHECK(on_request(NULL, &connection, path, method, "HTTP/1.1", NULL,
                              &none, &context) == MHD_YES);
        job = connection.job;
        connection.job = NULL;
        if (job != NULL) {
            job->run(job);
        }
    }
    FUZZ_CHECK(connection.is_answered && !connection.is_suspended);
    on_completed(NULL, &connection, &context,
                 MHD_REQUEST_TERMINATED_COMPLETED_OK);
    on_connection(NULL, &connection, &connection.link,
                  MHD_CONNECTION_NOTIFY_CLOSED);
    FUZZ_CHECK(http.idle.count + http.replies.count + http.streams.count == 0);
}

/* --- one input ----------------------------------------------------------- */

static void clean_up(void)
{
    (void)unlink(users);
}

static void start(void)
{
    const struct simba__access access = {.auth_file = users};
    char line[256];
    int fd = mkstemp(users), length;

    (void)atexit(clean_up);
    length = snprintf(line, sizeof line, "# who\na:%s\n",
                      crypt("b", "$6$rounds=1000$salt$"));
    FUZZ_CHECK(fd >= 0 && write(fd, line, (size_t)length) == length);
    FUZZ_CHECK(close(fd) == 0);
    board.sources = &source;
    board.count = 1;
    http.board = stream.board = &board;
    stream.most = 1;
    FUZZ_CHECK(simba_store_open("memory:", NULL, &source.store, NULL) ==
               SIMBA_OK);
    FUZZ_CHECK(simba__access_start(&access));
    memcpy(access_.key, fixed_key, sizeof fixed_key);
}

static void drop_rows(void)
{
    struct simba__text text = {0};
    struct simba__hash_link *link;

    while ((link = simba__hash_next(&source.rows, NULL)) != NULL) {
        simba__board_drop((struct simba__row *)link);
    }
    simba_report_close(source.told);
    simba_report_close(source.doctor);
    source.told = source.doctor = NULL;
    put_changes(&text);
    simba__text_fini(&text);
    while (stream.oldest < stream.next) {
        forget_frame();
    }
    drop_frame(stream.snapshot);
    stream.snapshot = NULL;
}

static void serve(const uint8_t *data, size_t size, size_t told)
{
    char *words = calloc(1, told + 1), *request = calloc(1, size + 1);

    FUZZ_CHECK(words != NULL && request != NULL);
    memcpy(words, data, told);
    memcpy(request, data + told, size - told);
    input.count = 0;
    for (size_t at = 0; at < told && input.count < TEXTS_MOST;
         at += strlen(words + at) + 1) {
        input.texts[input.count++] = words + at;
    }
    source.told_ms = source.skew_ms = 0;
    (void)look(&source);
    (void)ask_doctor(&source);
    ask(request, size - told);
    drop_rows();
    free(words);
    free(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_started;
    size_t told;

    if (size < 3) {
        return 0;
    }
    if (!is_started) {
        is_started = true;
        start();
    }
    told = (size_t)data[1] | (size_t)data[2] << 8;
    input.data = data;
    input.size = size;
    access_.given = (struct simba__access){
        .auth_file = (data[0] & 3) == 1 ? users : NULL,
        .auth_header = (data[0] & 3) == 2 ? "X-User" : NULL,
        .hosts = "simba.example",
        .may_break = (data[0] & 3) % 3 != 0 && (data[0] & 4) != 0};
    serve(data + 3, size - 3, told > size - 3 ? size - 3 : told);
    return 0;
}
