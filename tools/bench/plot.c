/* A figure of a report: lines over two axes. Each is a whole drawing, in light
 * and dark, so that it can be taken out of the page and used elsewhere. */
#include "bench/report.h"

#include "markup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 520,
    LEFT = 66,
    RIGHT = 30,
    TITLE = 20,  /* where the title stands, */
    LEGEND = 42, /* and the first row of names, */
    ROW = 18,    /* the next below it, */
    ABOVE = 26,  /* and the label of y between them and the field */
    FIELD = 230, /* which is so high; */
    BELOW = 46,  /* below it the labels of x */
    LETTER = 7,  /* about so wide */
    SWATCH = 26,
    MARKS = 6, /* of an axis that is not one of powers */
};

/* Numbers further apart are drawn by their powers. */
static const double FAR_APART = 8, DECADES_FEW = 2.3;

static const char style[] =
    "<style>.plot{--ground:#fff;--ink:#1d2733;--faint:#5d6975;--grid:#e3e6e9;"
    "--c0:#1f6fc4;--c1:#d1660a;--c2:#7a8791;--c3:#1d8a4b;--c4:#9a45b0;"
    "--c5:#c03050;--c6:#0f8a94;--c7:#8a6d00}"
    "@media(prefers-color-scheme:dark){.plot{--ground:#171c22;--ink:#e8ebee;"
    "--faint:#a3adb7;--grid:#303841;--c0:#6cb0f5;--c1:#f5a25d;--c2:#9aa6b0;"
    "--c3:#5fcf8e;--c4:#d18be4;--c5:#f4819b;--c6:#52ccd6;--c7:#d9bd4a}}"
    ".plot text{font:12.5px system-ui,sans-serif;fill:var(--faint)}"
    ".plot .title{font-weight:600;font-size:15px;fill:var(--ink)}"
    ".plot .end{text-anchor:end}.plot .mid{text-anchor:middle}"
    ".plot .grid{stroke:var(--grid)}"
    ".plot .line{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".plot .dashed{stroke-dasharray:6 4;stroke-width:1.6}</style>\n";

/* --- lines --------------------------------------------------------------- */

struct simba__plot_line *simba__plot_add(struct simba__plot *plot,
                                         const char *name,
                                         unsigned colour)
{
    struct simba__plot_line *line = NULL;

    if (plot->count < SIMBA__PLOT_LINES) {
        line = calloc(1, sizeof *line);
    }
    if (line != NULL) {
        (void)snprintf(line->name, sizeof line->name, "%s", name);
        line->colour = colour % 8;
        plot->lines[plot->count++] = line;
    }
    return line;
}

void simba__plot_point(struct simba__plot_line *line, double x, double y)
{
    if (line != NULL && line->count < SIMBA__PLOT_ROOM && x > 0 && y >= 0) {
        line->x[line->count] = x;
        line->y[line->count++] = y;
    }
}

/* --- numbers ------------------------------------------------------------- */

void simba__plot_number(enum simba__plot_unit unit,
                        double number,
                        char text[32])
{
    static const char *const times[] = {"ns", "µs", "ms", "s"};
    static const char *const counts[] = {"", " k", " M", " G"};
    static const char *const bytes[] = {"B", "kB", "MB", "GB"};
    double least = unit == SIMBA__PLOT_COUNT ? 10000 : 1000;
    int power = 0, digits;

    while (unit != SIMBA__PLOT_PERCENT && power < 3 &&
           number >= least - 0.5e-9) {
        number /= 1000;
        least = 1000;
        power++;
    }
    digits = number >= 99.95 || fabs(number - round(number)) < 0.005 ? 0
             : number >= 9.995                                       ? 1
                                                                     : 2;
    (void)snprintf(text, 32, "%.*f%s%s", digits, number,
                   unit == SIMBA__PLOT_COUNT ? "" : " ",
                   unit == SIMBA__PLOT_TIME      ? times[power]
                   : unit == SIMBA__PLOT_BYTES   ? bytes[power]
                   : unit == SIMBA__PLOT_PERCENT ? "%"
                                                 : counts[power]);
}

/* --- axes ---------------------------------------------------------------- */

/* The 1, 2 or 5 of a power that is not above, or not below. */
static double round_off(double number, bool is_up)
{
    double power = pow(10, floor(log10(number) + 1e-9)), part = number / power;

    if (is_up) {
        return power * (part <= 1.001   ? 1
                        : part <= 2.001 ? 2
                        : part <= 5.001 ? 5
                                        : 10);
    }
    return power * (part >= 4.999 ? 5 : part >= 1.999 ? 2 : 1);
}

/* x is one of powers always, y where its numbers are far apart. */
static void find_range(const struct simba__plot *plot,
                       bool is_x,
                       struct simba__plot_axis *axis)
{
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < plot->count; i++) {
        const struct simba__plot_line *line = plot->lines[i];

        for (size_t j = 0; j < line->count; j++) {
            double number = is_x ? line->x[j] : line->y[j];

            least = number < least && number > 0 ? number : least;
            most = number > most ? number : most;
        }
    }
    if (axis->unit == SIMBA__PLOT_PERCENT) {
        axis->to = 100;
        return;
    }
    most = most > 0 ? most : 1;
    least = least < most ? least : most;
    axis->is_log = is_x || most / least > FAR_APART;
    if (axis->is_log) {
        axis->from = round_off(least, false);
        axis->to = round_off(most, true);
        axis->to = axis->to > axis->from ? axis->to : axis->from * 10;
    } else {
        double step = simba__markup_step(most, MARKS);

        axis->to = ceil(most / step - 1e-9) * step;
    }
}

/* From 0 to 1. */
static double share_of(const struct simba__plot_axis *axis, double number)
{
    double share = axis->is_log
                       ? log(number / axis->from) / log(axis->to / axis->from)
                       : number / axis->to;

    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static double x_of(const struct simba__plot *plot, double number)
{
    return LEFT + share_of(&plot->x, number) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct simba__plot *plot, double top, double number)
{
    return top + FIELD - share_of(&plot->y, number) * FIELD;
}

static void put_x_mark(const struct simba__plot *plot,
                       double top,
                       double number,
                       FILE *file)
{
    double x = x_of(plot, number);
    char text[32];

    simba__plot_number(plot->x.unit, number, text);
    fprintf(file, "<path class=\"grid\" d=\"M%.1f %.1fv%d\"/><g class=\"mid\">",
            x, top, FIELD);
    simba__markup_text(file, x, top + FIELD + 17, text);
    fputs("</g>\n", file);
}

static void put_y_mark(const struct simba__plot *plot,
                       double top,
                       double number,
                       FILE *file)
{
    double y = y_of(plot, top, number);
    char text[32];

    simba__plot_number(plot->y.unit, number, text);
    fprintf(file, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><g class=\"end\">",
            LEFT, y, WIDTH - RIGHT);
    simba__markup_text(file, LEFT - 7, y + 4, text);
    fputs("</g>\n", file);
}

static void put_axis(const struct simba__plot *plot,
                     bool is_x,
                     double top,
                     FILE *file)
{
    static const double parts[] = {1, 2, 5};
    const struct simba__plot_axis *axis = is_x ? &plot->x : &plot->y;
    bool is_log = axis->is_log;
    bool is_long = is_log && log10(axis->to / axis->from) >= DECADES_FEW;
    double first = is_log ? pow(10, floor(log10(axis->from) + 1e-9)) : 0;
    double step = is_log ? 0
                  : axis->unit == SIMBA__PLOT_PERCENT
                      ? 25
                      : simba__markup_step(axis->to, MARKS);
    double number = first;

    for (int i = 0, power; number < axis->to * 1.001;) {
        if (number >= axis->from * 0.999 && !(is_long && i % 3 != 0)) {
            (is_x ? put_x_mark : put_y_mark)(plot, top, number, file);
        }
        power = ++i / 3;
        number = is_log ? first * pow(10, power) * parts[i % 3] : i * step;
    }
}

/* --- the figure ---------------------------------------------------------- */

static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width * LETTER;
}

/* The names of all lines, in rows; answers where they end. With no file it is
 * only found out where that is. */
static double put_legend(const struct simba__plot *plot, FILE *file)
{
    double x = 4, y = LEGEND;

    for (size_t i = 0; i < plot->count; i++) {
        const struct simba__plot_line *line = plot->lines[i];
        double wide = SWATCH + (double)width_of(line->name) + 16;

        if (x > 4 && x + wide > WIDTH) {
            x = 4;
            y += ROW;
        }
        if (file != NULL) {
            fprintf(file,
                    "<path class=\"line%s\" style=\"stroke:var(--c%u)\" "
                    "d=\"M%.1f %.1fh20\"/>",
                    line->is_dashed ? " dashed" : "", line->colour, x, y - 4);
            simba__markup_text(file, x + SWATCH, y, line->name);
        }
        x += wide;
    }
    return y;
}

static void put_line(const struct simba__plot *plot,
                     const struct simba__plot_line *line,
                     double top,
                     FILE *file)
{
    fprintf(file, "<path class=\"line%s\" style=\"stroke:var(--c%u)\" d=\"",
            line->is_dashed ? " dashed" : "", line->colour);
    for (size_t i = 0; i < line->count; i++) {
        fprintf(file, "%s%.1f %.1f", i == 0 ? "M" : "L", x_of(plot, line->x[i]),
                y_of(plot, top, line->y[i]));
    }
    fputs("\"/>\n", file);
    for (size_t i = 0; i < line->count && line->has_dots; i++) {
        char x[32], y[32];

        simba__plot_number(plot->x.unit, line->x[i], x);
        simba__plot_number(plot->y.unit, line->y[i], y);
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.4\" "
                "style=\"fill:var(--c%u)\"><title>",
                x_of(plot, line->x[i]), y_of(plot, top, line->y[i]),
                line->colour);
        simba__markup_escape(file, line->name);
        fprintf(file, ", %s: %s</title></circle>\n", x, y);
    }
}

static void put_figure(struct simba__plot *plot, FILE *file)
{
    double top = put_legend(plot, NULL) + ABOVE + 8;

    find_range(plot, true, &plot->x);
    find_range(plot, false, &plot->y);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" "
            "id=\"%s\" role=\"img\" viewBox=\"0 0 %d %.0f\">\n<title>",
            plot->id, WIDTH, top + FIELD + BELOW);
    simba__markup_escape(file, plot->title);
    fprintf(file,
            "</title>\n%s<rect width=\"100%%\" height=\"100%%\" rx=\"8\" "
            "style=\"fill:var(--ground)\"/>\n"
            "<text class=\"title\" x=\"4\" y=\"%d\">",
            style, TITLE);
    simba__markup_escape(file, plot->title);
    fputs("</text>\n", file);
    (void)put_legend(plot, file);
    simba__markup_text(file, 4, top - 15, plot->y.label);
    put_axis(plot, true, top, file);
    put_axis(plot, false, top, file);
    fputs("<g class=\"mid\">", file);
    simba__markup_text(file, LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
                       top + FIELD + 37, plot->x.label);
    fputs("</g>\n", file);
    for (size_t i = 0; i < plot->count; i++) {
        put_line(plot, plot->lines[i], top, file);
    }
    fputs("</svg>\n", file);
}

void simba__plot_write(struct simba__plot *plot, FILE *file)
{
    size_t points = 0;

    for (size_t i = 0; i < plot->count; i++) {
        points += plot->lines[i]->count;
    }
    if (points > 0) {
        put_figure(plot, file);
    }
    while (plot->count > 0) {
        free(plot->lines[--plot->count]);
    }
}
