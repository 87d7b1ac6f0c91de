/* Changes as Server-Sent Events; see serve.h.
 *
 * What has changed is put into words once, in a frame that all open pages
 * share: a page costs its socket and no more. A page first gets a snapshot of
 * everything, which those who come at the same time share as well, and then
 * each frame that was made since. One that is so slow that its next frame is
 * forgotten is cut off; it comes again and begins with a snapshot. Rows say how
 * a mutex is, not what happened, so one told twice does no harm. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"

#include <microhttpd.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Changes are gathered for so long after a frame. */
    FRAME_EVERY_MS = 100,
    /* A page that hears nothing for longer takes its connection for lost. */
    SIGN_EVERY_MS = 5000,
    FRAMES = 512,
    FRAME_BYTES_MOST = 16 << 20,
    SNAPSHOT_KEPT_MS = 2000,
    BLOCK = 32 << 10
};

/* References are counted under the lock. */
struct frame {
    size_t references;
    size_t length;
    char *bytes;
};

struct simba__page {
    struct simba__page *previous, *next;
    struct MHD_Connection *connection;
    struct frame *frame; /* being sent; NULL: none */
    size_t sent;         /* of it */
    uint64_t wanted;     /* the number of the next */
    bool is_suspended;
};

static struct {
    struct simba__board *board;
    pthread_mutex_t lock;
    struct simba__page *pages;
    size_t count, most;
    struct frame *frames[FRAMES]; /* by number modulo FRAMES */
    uint64_t oldest, next;        /* numbers */
    size_t bytes;
    struct frame *snapshot;
    uint64_t snapshot_next; /* the first frame that is not in it */
    int64_t snapshot_ms;
    _Atomic int64_t alive_ms; /* boot clock */
} stream = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- words --------------------------------------------------------------- */

static void put_time(struct simba__text *out, int64_t ms)
{
    if (ms == SIMBA__UNKNOWN) {
        simba__text_put(out, ",null");
    } else {
        simba__text_printf(out, ",%" PRId64, ms);
    }
}

/* What the owner tells about itself: [pid, host, user, command]. */
static void put_told(struct simba__text *out, const struct simba__row *row)
{
    const simba_told *told = simba__view_find_told(
        row->source->told, row->link.key, row->owner.token);
    const char *texts[3];

    if (told == NULL || row->owner.id[0] == '\0') {
        simba__text_put(out, ",null");
        return;
    }
    texts[0] = told->host;
    texts[1] = told->user;
    texts[2] = told->command;
    simba__text_printf(out, ",[%" PRId64, told->pid);
    for (size_t i = 0; i < 3; i++) {
        simba__text_put(out, ",");
        simba__json_quote(out, texts[i]);
    }
    simba__text_put(out, "]");
}

/* [store, mutex, id, token, since, ttl until, lease until, lease, broken,
 * waiting, tenures, breaks, gaps, owned, slots, told]; times of day here. */
void simba__stream_put_row(struct simba__text *out,
                           const struct simba__row *row)
{
    const simba_owner *owner = &row->owner;

    simba__text_printf(out, "[%zu,", row->source->index);
    simba__json_quote(out, row->link.key);
    if (owner->id[0] == '\0') {
        simba__text_put(out, ",null,null,null,null,null,null,0");
    } else {
        simba__text_put(out, ",");
        simba__json_quote(out, owner->id);
        /* As a text: JavaScript has no such numbers. */
        simba__text_printf(out,
                           owner->token == 0 ? ",null" : ",\"%" PRIu64 "\"",
                           owner->token);
        put_time(out, simba__board_unix(row->source, owner->acquired_at_ms));
        put_time(out, simba__board_unix(row->source, owner->ttl_at_ms));
        put_time(out, simba__board_unix(row->source, owner->transition_at_ms));
        put_time(out, row->lease_ms == 0 ? SIMBA__UNKNOWN : row->lease_ms);
        simba__text_put(out, owner->is_broken ? ",1" : ",0");
    }
    put_time(out, row->waiting);
    simba__text_printf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%zu",
                       row->tenure_count, row->break_count, row->gap_count,
                       row->owned);
    put_time(out, owner->slots == UINT32_MAX ? SIMBA__UNKNOWN
                  : owner->slots > 1         ? (int64_t)owner->slots
                                             : 1);
    put_told(out, row);
    simba__text_put(out, "]");
}

static void put_stores(struct simba__text *out)
{
    const struct simba__board *board = stream.board;
    struct simba__json json;

    simba__text_put(out, "event: stores\ndata: [");
    for (size_t i = 0; i < board->count; i++) {
        simba__text_put(out, i == 0 ? "" : ",");
        simba__json_begin(&json, out);
        simba__api_put_store(&json, &board->sources[i]);
        simba__json_end(&json);
    }
    simba__text_put(out, "]\n\n");
}

static void begin_rows(struct simba__text *out, const char *event)
{
    simba__text_printf(out, "event: %s\ndata: {\"now\":%" PRId64 ",\"rows\":[",
                       event, simba__unix_ms());
}

/* What has changed since the last frame. Under the board's lock. */
static void put_changes(struct simba__text *out)
{
    struct simba__board *board = stream.board;
    bool is_first = true;

    if (board->has_news) {
        put_stores(out);
        board->has_news = false;
    }
    if (board->dirty == NULL && board->gone == NULL) {
        return;
    }
    begin_rows(out, "rows");
    for (struct simba__row *row = board->dirty; row != NULL;
         row = row->next_dirty) {
        simba__text_put(out, is_first ? "" : ",");
        is_first = false;
        simba__stream_put_row(out, row);
        row->is_dirty = false;
    }
    board->dirty = NULL;
    simba__text_put(out, "],\"gone\":[");
    is_first = true;
    while (board->gone != NULL) {
        struct simba__gone *gone = board->gone;

        simba__text_printf(out, "%s[%zu,", is_first ? "" : ",", gone->source);
        is_first = false;
        simba__json_quote(out, gone->mutex);
        simba__text_put(out, "]");
        board->gone = gone->next;
        free(gone);
    }
    simba__text_put(out, "]}\n\n");
}

static void put_everything(struct simba__text *out)
{
    const struct simba__board *board = stream.board;
    bool is_first = true;

    simba__text_put(out, "retry: 1000\n");
    put_stores(out);
    begin_rows(out, "all");
    for (size_t i = 0; i < board->count; i++) {
        const struct simba__hash *rows = &board->sources[i].rows;

        for (struct simba__hash_link *link = simba__hash_next(rows, NULL);
             link != NULL; link = simba__hash_next(rows, link)) {
            simba__text_put(out, is_first ? "" : ",");
            is_first = false;
            simba__stream_put_row(out, (struct simba__row *)link);
        }
    }
    simba__text_put(out, "]}\n\n");
}

/* --- frames -------------------------------------------------------------- */

/* Takes the text; NULL: there was no memory. */
static struct frame *make_frame(struct simba__text *text)
{
    struct frame *frame = calloc(1, sizeof *frame);
    size_t length = text->length;
    char *bytes = simba__text_take(text);

    if (frame == NULL || bytes == NULL) {
        free(frame);
        free(bytes);
        return NULL;
    }
    *frame = (struct frame){.references = 1, .length = length, .bytes = bytes};
    return frame;
}

static void drop_frame(struct frame *frame)
{
    if (frame != NULL && --frame->references == 0) {
        free(frame->bytes);
        free(frame);
    }
}

static void forget_frame(void)
{
    struct frame **frame = &stream.frames[stream.oldest++ % FRAMES];

    stream.bytes -= *frame == NULL ? 0 : (*frame)->length;
    drop_frame(*frame);
    *frame = NULL;
}

/* A frame that could not be made is a hole that cuts everybody off, so that
 * they begin anew. */
static void push_frame(struct frame *frame)
{
    (void)pthread_mutex_lock(&stream.lock);
    while (stream.next - stream.oldest == FRAMES ||
           (stream.next > stream.oldest && stream.bytes > FRAME_BYTES_MOST)) {
        forget_frame();
    }
    stream.bytes += frame == NULL ? 0 : frame->length;
    stream.frames[stream.next++ % FRAMES] = frame;
    while (frame == NULL && stream.oldest < stream.next) {
        forget_frame();
    }
    for (struct simba__page *page = stream.pages; page != NULL;
         page = page->next) {
        if (page->is_suspended) {
            page->is_suspended = false;
            MHD_resume_connection(page->connection);
        }
    }
    (void)pthread_mutex_unlock(&stream.lock);
}

static void *send_changes(void *unused)
{
    struct simba__board *board = stream.board;
    int64_t sent_ms = 0;

    (void)unused;
    for (;;) {
        struct simba__text text = {0};
        int64_t now_ms;

        (void)pthread_mutex_lock(&board->lock);
        if (board->dirty == NULL && board->gone == NULL && !board->has_news) {
            simba__serve_wait(&board->changed, &board->lock, 1000);
        }
        put_changes(&text);
        (void)pthread_mutex_unlock(&board->lock);
        now_ms = simba__clock_ms();
        atomic_store(&stream.alive_ms, now_ms);
        if (text.length == 0 && now_ms - sent_ms >= SIGN_EVERY_MS) {
            begin_rows(&text, "rows");
            simba__text_put(&text, "]}\n\n");
        }
        simba__http_sweep();
        if (text.length > 0) {
            push_frame(make_frame(&text));
            sent_ms = now_ms;
            simba__clock_pause(FRAME_EVERY_MS);
        }
    }
    return NULL;
}

/* --- pages --------------------------------------------------------------- */

/* The next bytes for a page; 0: it waits for a frame. */
static ssize_t read_frames(void *user, uint64_t at, char *to, size_t room)
{
    struct simba__page *page = user;
    size_t count;

    (void)at;
    (void)pthread_mutex_lock(&stream.lock);
    if (page->frame != NULL && page->sent == page->frame->length) {
        drop_frame(page->frame);
        page->frame = NULL;
    }
    if (page->frame == NULL && page->wanted < stream.oldest) {
        (void)pthread_mutex_unlock(&stream.lock);
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (page->frame == NULL && page->wanted == stream.next) {
        page->is_suspended = true;
        MHD_suspend_connection(page->connection);
        (void)pthread_mutex_unlock(&stream.lock);
        return 0;
    }
    if (page->frame == NULL) {
        page->frame = stream.frames[page->wanted++ % FRAMES];
        page->frame->references++;
        page->sent = 0;
    }
    (void)pthread_mutex_unlock(&stream.lock);
    count = page->frame->length - page->sent;
    count = count > room ? room : count;
    memcpy(to, page->frame->bytes + page->sent, count);
    page->sent += count;
    return (ssize_t)count;
}

static void close_page(void *user)
{
    struct simba__page *page = user;

    (void)pthread_mutex_lock(&stream.lock);
    assert(!page->is_suspended);
    if (page->previous == NULL) {
        stream.pages = page->next;
    } else {
        page->previous->next = page->next;
    }
    if (page->next != NULL) {
        page->next->previous = page->previous;
    }
    drop_frame(page->frame);
    stream.count--;
    (void)pthread_mutex_unlock(&stream.lock);
    free(page);
}

/* A snapshot, and which frame comes after it; NULL: no memory. Only the thread
 * that answers calls this. */
static struct frame *take_snapshot(uint64_t *next)
{
    struct simba__text text = {0};
    struct frame *fresh, *snapshot;
    int64_t now_ms = simba__clock_ms();
    bool is_good;

    (void)pthread_mutex_lock(&stream.lock);
    is_good = stream.snapshot != NULL &&
              stream.snapshot_next >= stream.oldest &&
              now_ms - stream.snapshot_ms < SNAPSHOT_KEPT_MS;
    *next = stream.next;
    (void)pthread_mutex_unlock(&stream.lock);
    if (!is_good) {
        (void)pthread_mutex_lock(&stream.board->lock);
        put_everything(&text);
        (void)pthread_mutex_unlock(&stream.board->lock);
        fresh = make_frame(&text);
        (void)pthread_mutex_lock(&stream.lock);
        drop_frame(stream.snapshot);
        stream.snapshot = fresh;
        stream.snapshot_next = *next;
        stream.snapshot_ms = now_ms;
        (void)pthread_mutex_unlock(&stream.lock);
    }
    (void)pthread_mutex_lock(&stream.lock);
    snapshot = stream.snapshot;
    *next = stream.snapshot_next;
    if (snapshot != NULL) {
        snapshot->references++;
    }
    (void)pthread_mutex_unlock(&stream.lock);
    return snapshot;
}

struct MHD_Response *simba__stream_open(struct MHD_Connection *connection)
{
    struct simba__page *page;
    struct MHD_Response *response;
    struct frame *snapshot;
    uint64_t next;

    if (simba__stream_count() >= stream.most) {
        return NULL;
    }
    page = calloc(1, sizeof *page);
    snapshot = page == NULL ? NULL : take_snapshot(&next);
    response =
        snapshot == NULL
            ? NULL
            : MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK,
                                                read_frames, page, close_page);
    (void)pthread_mutex_lock(&stream.lock);
    if (response == NULL) {
        drop_frame(snapshot);
        free(page);
    } else {
        page->connection = connection;
        page->frame = snapshot;
        page->wanted = next;
        page->next = stream.pages;
        if (page->next != NULL) {
            page->next->previous = page;
        }
        stream.pages = page;
        stream.count++;
    }
    (void)pthread_mutex_unlock(&stream.lock);
    return response;
}

size_t simba__stream_count(void)
{
    size_t count;

    (void)pthread_mutex_lock(&stream.lock);
    count = stream.count;
    (void)pthread_mutex_unlock(&stream.lock);
    return count;
}

bool simba__stream_is_alive(void)
{
    return simba__clock_ms() - atomic_load(&stream.alive_ms) < SIGN_EVERY_MS;
}

bool simba__stream_start(struct simba__board *board, size_t most)
{
    pthread_t thread;

    stream.board = board;
    stream.most = most;
    atomic_store(&stream.alive_ms, simba__clock_ms());
    return pthread_create(&thread, NULL, send_changes, NULL) == 0;
}
