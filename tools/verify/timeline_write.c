/* Writing a timeline: a page that can be zoomed, whose script is timeline.js,
 * or a drawing that stands still. Names come from logs, and whatever they hold,
 * they must stay text. */
#include "verify/timeline.h"
#include "verify/timeline_js.h"

#include "markup.h"
#include "util/json.h"

#include <inttypes.h>
#include <string.h>

/* Which colour of the script's and of ours: by its id, so that one contender
 * has the same everywhere. */
static unsigned colour_of(const struct simba__picture_contender *contender)
{
    return simba__fnv32(contender->link.key, strlen(contender->link.key)) % 10;
}

/* --- the page ------------------------------------------------------------ */

/* As JSON, without anything that ends a script. */
static void put_quoted(FILE *file, const char *string)
{
    struct simba__text text = {.bytes = NULL};

    simba__json_quote(&text, string);
    for (size_t i = 0; i < text.length; i++) {
        if (text.bytes[i] == '<') {
            (void)fputs("\\u003c", file);
        } else {
            (void)putc(text.bytes[i], file);
        }
    }
    simba__text_fini(&text);
}

static void put_mutex(const struct simba__timeline *t,
                      const struct simba__picture_mutex *mutex,
                      FILE *file)
{
    fputs("{\"name\":", file);
    put_quoted(file, mutex->link.key);
    fprintf(file, ",\"lane_count\":%zu,\"ids\":[", mutex->lane_count);
    for (size_t i = 0; i < mutex->contender_count; i++) {
        const struct simba__picture_contender *c = mutex->contenders[i];

        fputs(i == 0 ? "[" : ",[", file);
        put_quoted(file, c->link.key);
        fprintf(file, ",%zu,%u]", c->lane, colour_of(c));
    }
    fputs("],\n\"spans\":[", file);
    for (size_t i = 0; i < mutex->span_count; i++) {
        const struct simba__picture_span *s = &mutex->spans[i];

        fprintf(file, "%s%zu,%" PRId64 ",%" PRId64 ",%" PRId64 ",",
                i == 0 ? "" : ",", s->who, s->from_us - t->first_us,
                s->until_us - s->from_us, s->alive_us - s->from_us);
        fprintf(file, s->token == 0 ? "0" : "\"%" PRIu64 "\"", s->token);
    }
    fputs("],\n\"marks\":[", file);
    for (size_t i = 0; i < mutex->mark_count; i++) {
        const struct simba__picture_mark *m = &mutex->marks[i];

        fprintf(file, "%s%zu,%" PRId64 ",%d", i == 0 ? "" : ",", m->who,
                m->at_us - t->first_us, (int)m->kind);
    }
    fputs("]}", file);
}

static size_t index_of(const struct simba__timeline *t,
                       const struct simba__picture_mutex *mutex)
{
    size_t i = 0;

    while (t->mutexes[i] != mutex) {
        i++;
    }
    return i;
}

static void put_notes(const struct simba__timeline *t,
                      bool is_found,
                      FILE *file)
{
    const char *between = "";

    for (size_t i = 0; i < t->note_count; i++) {
        const struct simba__picture_note *n = &t->notes[i];

        if ((n->mutex != NULL) != is_found) {
            continue;
        }
        fprintf(file, "%s[%" PRId64 ",", between, n->from_us - t->first_us);
        if (is_found) {
            fprintf(file, "%zu,", index_of(t, n->mutex));
        } else {
            fprintf(file, "%" PRId64 ",", n->until_us - t->first_us);
        }
        put_quoted(file, n->text);
        fputs("]", file);
        between = ",\n";
    }
}

void simba__timeline_write_html(const struct simba__timeline *t, FILE *file)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n"
          "<title>simba timeline</title>\n<style>\n" SIMBA__TIMELINE_STYLE
          "</style></head>\n<body><header><h1>Timeline <small id=\"sum\">"
          "</small><button id=\"in\">+</button><button id=\"out\">−</button>"
          "<button id=\"all\">whole</button></h1>\n"
          "<svg id=\"head\"></svg></header>\n"
          "<svg id=\"lanes\" role=\"img\" aria-label=\"Who owned what "
          "when\"></svg>\n"
          "<section id=\"found\"></section><div id=\"tip\" hidden></div>\n"
          "<script type=\"application/json\" id=\"data\">\n",
          file);
    fprintf(file, "{\"span\":%" PRId64 ",\"mutexes\":[",
            t->last_us - t->first_us);
    for (size_t i = 0; i < t->mutex_count; i++) {
        fputs(i == 0 ? "" : ",\n", file);
        put_mutex(t, t->mutexes[i], file);
    }
    fputs("],\n\"faults\":[", file);
    put_notes(t, false, file);
    fputs("],\n\"findings\":[", file);
    put_notes(t, true, file);
    fputs("]}\n</script>\n<script>\n", file);
    fputs(SIMBA__TIMELINE_DATA, file);
    fputs(SIMBA__TIMELINE_SHAPES, file);
    fputs(SIMBA__TIMELINE_DRAWING, file);
    fputs(SIMBA__TIMELINE_HANDS, file);
    fputs("</script></body></html>\n", file);
}

/* --- the drawing --------------------------------------------------------- */

enum {
    WIDTH = 1600,
    GUTTER = 150,
    RIGHT = 10,
    HEAD = 24,
    OWNER = 18,
    LANE = 13,
    GAP = 12,
    AXIS = 56,
    LANES_MOST = 40,
};

static const char *const colours[] = {
    "#3d7dca", "#2a9d8f", "#8a5bbd", "#c77d1e", "#3f8f4f",
    "#b34a78", "#4a63b8", "#7a8b2e", "#1f8aa3", "#a3623f"};

/* What is too long for the names' column is cut; a text of ours or of UTF-8. */
static void put_label(FILE *file, double y, const char *text)
{
    char label[64];
    size_t length = 0, count = 0, next;

    while (text[length] != '\0' && count++ < 20 && length < sizeof label - 8) {
        next = simba__text_sequence(text + length, strlen(text + length));
        length += next == 0 ? 1 : next;
    }
    (void)snprintf(label, sizeof label, "%.*s%s", (int)length, text,
                   text[length] == '\0' ? "" : "…");
    simba__markup_text(file, 14, y, label);
}

static double x_of(const struct simba__timeline *t, int64_t at_us)
{
    return GUTTER + (double)(at_us - t->first_us) /
                        (double)(t->last_us - t->first_us) *
                        (WIDTH - GUTTER - RIGHT);
}

static size_t lanes_of(const struct simba__picture_mutex *mutex)
{
    return mutex->lane_count < LANES_MOST ? mutex->lane_count : LANES_MOST;
}

static double height_of(const struct simba__picture_mutex *mutex)
{
    return HEAD + OWNER + 3 + GAP + LANE * (double)lanes_of(mutex);
}

/* Where spans are drawn one after the other. */
struct row {
    const struct simba__timeline *t;
    const struct simba__picture_mutex *mutex;
    FILE *file;
    double y, height;
    double drawn; /* up to where */
};

/* Unless nothing of it is to be seen beside what was drawn. */
static void put_span(struct row *row, const struct simba__picture_span *span)
{
    const struct simba__picture_contender *c =
        row->mutex->contenders[span->who];
    double left = x_of(row->t, span->from_us);
    double right = x_of(row->t, span->until_us);
    double alive = x_of(row->t, span->alive_us);
    bool is_wait = span->token == 0;

    right = right < left + 1 ? left + 1 : right;
    alive = alive < left + 1 ? left + 1 : alive > right ? right : alive;
    if (right < row->drawn + 1) {
        return;
    }
    row->drawn = right;
    fprintf(row->file, "<g fill=\"%s\">",
            is_wait ? "#b9c2cb" : colours[colour_of(c)]);
    if (right > left + 3) { /* or nobody could point at it */
        fputs("<title>", row->file);
        simba__markup_escape(row->file, c->link.key);
        fprintf(row->file, is_wait ? " waits" : " owns it, token %" PRIu64,
                span->token);
        fprintf(row->file, "; %.3f s to %.3f s</title>",
                (double)(span->from_us - row->t->first_us) / 1e6,
                (double)(span->until_us - row->t->first_us) / 1e6);
    }
    fprintf(row->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
            left, is_wait ? row->y + LANE / 2.0 - 2 : row->y + 1,
            is_wait ? right - left : alive - left, is_wait ? 4 : row->height);
    if (!is_wait && alive < right) {
        fprintf(row->file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                "opacity=\"0.35\"/>",
                alive, row->y + 1, right - alive, row->height);
    }
    fputs("</g>\n", row->file);
}

static void put_marks(const struct simba__timeline *t,
                      const struct simba__picture_mutex *mutex,
                      double y,
                      FILE *file)
{
    static const char *const shapes[] = {
        [SIMBA__MARK_RENEWED] = "d=\"M0 3v7\" stroke=\"#fff\"",
        [SIMBA__MARK_DOUBT] = "d=\"M-3 2l6 9m0 -9l-6 9\" stroke=\"#e8a33d\"",
        [SIMBA__MARK_FORCED] = "d=\"M-3 2l6 9m0 -9l-6 9\" stroke=\"#d62839\"",
        [SIMBA__MARK_FINDING] = "d=\"M0 -3l5 8h-10z\" class=\"bad\""};
    double drawn[LANES_MOST][SIMBA__MARK_FINDING + 1] = {{0}};

    for (size_t i = 0; i < mutex->mark_count; i++) {
        const struct simba__picture_mark *m = &mutex->marks[i];
        size_t lane = mutex->contenders[m->who]->lane;
        double x = x_of(t, m->at_us);

        if (lane < LANES_MOST && x >= drawn[lane][m->kind] + 1.5) {
            drawn[lane][m->kind] = x;
            fprintf(file, "<path transform=\"translate(%.1f %.1f)\" %s/>\n", x,
                    y + LANE * (double)lane, shapes[m->kind]);
        }
    }
}

static void put_band(const struct simba__timeline *t,
                     const struct simba__picture_mutex *mutex,
                     double y,
                     FILE *file)
{
    double top = y + HEAD, lanes = top + OWNER + 3;
    struct row owner = {t, mutex, file, top, OWNER - 2, 0};
    struct row rows[LANES_MOST];
    size_t count[LANES_MOST] = {0};
    const char *names[LANES_MOST];

    fputs("<g class=\"name\">", file);
    simba__markup_text(file, 14, top - 7, mutex->link.key);
    fputs("</g>", file);
    simba__markup_text(file, 14, top + 13, "owner");
    fprintf(file,
            "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
            "fill=\"#f0f1f2\"/>\n",
            GUTTER, top, WIDTH - GUTTER - RIGHT, OWNER);
    for (size_t i = 0; i < LANES_MOST; i++) {
        rows[i] =
            (struct row){t, mutex, file, lanes + LANE * (double)i, LANE - 2, 0};
        names[i] = "";
    }
    for (size_t i = 0; i < mutex->span_count; i++) {
        const struct simba__picture_span *s = &mutex->spans[i];
        size_t lane = mutex->contenders[s->who]->lane;

        if (s->token != 0) {
            put_span(&owner, s);
        }
        if (lane < LANES_MOST) {
            put_span(&rows[lane], s);
        }
    }
    for (size_t i = 0; i < mutex->contender_count; i++) {
        size_t lane = mutex->contenders[i]->lane;

        if (lane < LANES_MOST) {
            count[lane]++;
            names[lane] = mutex->contenders[i]->link.key;
        }
    }
    for (size_t i = 0; i < lanes_of(mutex); i++) {
        char several[40];

        (void)snprintf(several, sizeof several, "%zu contenders", count[i]);
        put_label(file, lanes + LANE * (double)i + 10,
                  count[i] > 1 ? several : names[i]);
    }
    put_marks(t, mutex, lanes, file);
}

static void put_axis(const struct simba__timeline *t, double height, FILE *file)
{
    double span_s = (double)(t->last_us - t->first_us) / 1e6;
    double step = simba__markup_step(span_s, 14), free_x = 0;

    for (int i = 0; i * step <= span_s; i++) {
        double x = x_of(t, t->first_us + (int64_t)(i * step * 1e6));
        char label[40];

        (void)snprintf(label, sizeof label, "%.*f s", step < 1 ? 3 : 0,
                       i * step);
        fprintf(file, "<path d=\"M%.1f 6V50\" stroke=\"#dde0e3\"/>\n", x);
        simba__markup_text(file, x + 3, 16, label);
    }
    simba__markup_text(file, 14, 36, "faults");
    for (size_t i = 0; i < t->note_count; i++) {
        const struct simba__picture_note *n = &t->notes[i];
        int64_t until_us = n->until_us < t->last_us ? n->until_us : t->last_us;
        double x = x_of(t, n->from_us), wide = x_of(t, until_us) - x;

        if (n->mutex != NULL) {
            continue;
        }
        fprintf(file,
                "<rect x=\"%.1f\" y=\"26\" width=\"%.1f\" height=\"6\" "
                "fill=\"#e8a33d\"><title>",
                x, wide < 2 ? 2 : wide);
        simba__markup_escape(file, n->text);
        fprintf(file,
                "</title></rect><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                "height=\"%.1f\" fill=\"#e8a33d\" opacity=\"0.13\"/>\n",
                x, AXIS, wide < 1 ? 1 : wide, height - AXIS);
        if (x >= free_x) {
            simba__markup_text(file, x, 45, n->text);
            free_x = x + 6.2 * (double)strlen(n->text) + 8;
        }
    }
}

void simba__timeline_write_svg(const struct simba__timeline *t, FILE *file)
{
    double height = AXIS, y = AXIS;

    for (size_t i = 0; i < t->mutex_count; i++) {
        height += height_of(t->mutexes[i]);
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n"
            "<style>text{font:11px system-ui,sans-serif;fill:#66727f}"
            ".name text{font-weight:600;font-size:12px;fill:#1d2733}"
            "path{stroke-width:1.6;fill:none}.bad{fill:#d62839}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fbfbfa\"/>\n",
            WIDTH, height, WIDTH, height);
    put_axis(t, height, file);
    for (size_t i = 0; i < t->mutex_count; i++) {
        put_band(t, t->mutexes[i], y, file);
        y += height_of(t->mutexes[i]);
    }
    fputs("</svg>\n", file);
}
