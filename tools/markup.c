/* Escapes, and marks of an axis; see markup.h. */
#include "markup.h"

#include "util/text.h"

#include <string.h>

void simba__markup_escape(FILE *file, const char *text)
{
    for (size_t room = strlen(text), length; room > 0;
         text += length, room -= length) {
        size_t valid = simba__text_sequence(text, room);
        bool is_none = valid == 0 || (unsigned char)text[0] < 0x20 ||
                       memcmp(text, "\xef\xbf\xbe", valid) == 0 ||
                       memcmp(text, "\xef\xbf\xbf", valid) == 0;

        length = valid == 0 ? 1 : valid;
        if (is_none) {
            fputs("\xef\xbf\xbd", file);
        } else if (strchr("<>&\"'", text[0]) != NULL) {
            fprintf(file, "&#%d;", text[0]);
        } else {
            (void)fwrite(text, 1, length, file);
        }
    }
}

void simba__markup_text(FILE *file, double x, double y, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    simba__markup_escape(file, text);
    fputs("</text>\n", file);
}

double simba__markup_step(double span, double most)
{
    double step = 1e-6;

    for (int i = 0; span / step > most; i++) {
        step *= i % 3 == 1 ? 2.5 : 2;
    }
    return step;
}
