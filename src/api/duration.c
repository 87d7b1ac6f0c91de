#include <simba/duration.h>

#include <assert.h>
#include <string.h>

/* Nobody waits or holds longer than this; it keeps all sums of times far from
 * overflow. */
static const int64_t most_ms = INT64_C(10) * 365 * 24 * 3600 * 1000;

/* Digits, with at most one point between them, and a unit. Not by strtod(): it
 * would take "inf", hex and exponents as well, and its decimal point is the
 * locale's. */
int simba_duration_parse(const char *text, int64_t *ms, simba_error *error)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    size_t part = text[whole] == '.' ? strspn(text + whole + 1, digits) : 0;
    size_t length = part > 0 ? whole + 1 + part : whole;
    double value = 0, scale = 1, unit = 0;

    assert(ms != NULL);
    if (strcmp(text, "0") == 0) {
        *ms = 0; /* the same in every unit */
        return SIMBA_OK;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        unit = strcmp(text + length, units[i].name) == 0 ? units[i].ms : unit;
    }
    if (whole == 0 || unit <= 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "no duration; write a number and a unit, such "
                               "as 250ms, 10s, 5m or 1h");
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '.') {
            scale /= i > whole ? 10 : 1;
            value = i < whole ? value * 10 + (text[i] - '0')
                              : value + (text[i] - '0') * scale;
        }
    }
    value *= unit;
    if (value > (double)most_ms) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "more than ten years");
    }
    *ms = (int64_t)(value + 0.5);
    return SIMBA_OK;
}
