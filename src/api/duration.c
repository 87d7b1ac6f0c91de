#include <simba/duration.h>

#include <stdlib.h>
#include <string.h>

/* Nobody waits or holds longer than this; it keeps all sums of times far from
 * overflow. */
static const int64_t most_ms = INT64_C(10) * 365 * 24 * 3600 * 1000;

/* How many milliseconds a unit has, 0 for what is none. */
static double unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Digits with at most one point between them: strtod() would take "inf", hex
 * and exponents as well. */
static size_t number_length(const char *text)
{
    size_t whole = strspn(text, "0123456789");
    size_t part;

    if (whole == 0 || text[whole] != '.') {
        return whole;
    }
    part = strspn(text + whole + 1, "0123456789");
    return part == 0 ? 0 : whole + 1 + part;
}

/* Not strtod(): its decimal point is the locale's. */
static double number_of(const char *text)
{
    double value = 0, scale = 1;

    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (*text - '0');
    }
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++) {
            scale /= 10;
            value += (*text - '0') * scale;
        }
    }
    return value;
}

int simba_duration_parse(const char *text, int64_t *ms, simba_error *error)
{
    size_t length = number_length(text);
    double unit = unit_ms(text + length);
    double value;

    if (strcmp(text, "0") == 0) {
        *ms = 0; /* the same in every unit */
        return SIMBA_OK;
    }
    if (length == 0 || unit <= 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "no duration; write a number and a unit, such "
                               "as 250ms, 10s, 5m or 1h");
    }
    value = number_of(text) * unit;
    if (value > (double)most_ms) {
        return simba_error_set(error, SIMBA_EINVAL, 0, "more than ten years");
    }
    *ms = (int64_t)(value + 0.5);
    return SIMBA_OK;
}
