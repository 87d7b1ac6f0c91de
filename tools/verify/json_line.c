#include "verify/json_line.h"

#include <string.h>

enum { DEPTH_MOST = 32 };

struct reader {
    char *at, *end;
    const char *problem;
    int depth;
};

static bool fail(struct reader *r, const char *problem)
{
    if (r->problem == NULL) {
        r->problem = problem;
    }
    return false;
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' ||
                              *r->at == '\r' || *r->at == '\n')) {
        r->at++;
    }
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (r->at < r->end && *r->at == c) {
        r->at++;
        return true;
    }
    return false;
}

/* --- text ---------------------------------------------------------------- */

static bool read_hex(struct reader *r, unsigned *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = (char)(r->at < r->end ? *r->at : 0);

        if (c >= '0' && c <= '9') {
            *value = *value * 16 + (unsigned)(c - '0');
        } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
            *value = *value * 16 + (unsigned)((c | 0x20) - 'a') + 10;
        } else {
            return fail(r, "a broken \\u escape");
        }
    }
    return true;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* Behind "\u"; a character beyond the first 65,536 takes two of them. */
static bool read_unicode(struct reader *r, char **to)
{
    unsigned code, low;

    if (!read_hex(r, &code)) {
        return false;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') {
            return fail(r, "half a \\u escape");
        }
        r->at += 2;
        if (!read_hex(r, &low) || low < 0xdc00 || low > 0xdfff) {
            return fail(r, "half a \\u escape");
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0 || (code >= 0xdc00 && code <= 0xdfff)) {
        return fail(r, "a \\u escape that is no character");
    }
    *to = put_utf8(*to, code);
    return true;
}

static bool read_escape(struct reader *r, char **to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    char c = (char)(r->at < r->end ? *r->at++ : 0);
    const char *found = c == '\0' ? NULL : strchr(names, c);

    if (c == 'u') {
        return read_unicode(r, to);
    }
    if (found == NULL) {
        return fail(r, "an unknown escape");
    }
    *(*to)++ = values[found - names];
    return true;
}

/* Decoded where it stands: nothing grows by that. */
static bool read_text(struct reader *r, const char **text)
{
    char *to;

    if (!take(r, '"')) {
        return fail(r, "a text was expected");
    }
    *text = to = r->at;
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;

        if (c < 0x20) {
            return fail(r, "a control character in a text");
        }
        if (c != '\\') {
            *to++ = (char)c;
        } else if (!read_escape(r, &to)) {
            return false;
        }
    }
    if (r->at == r->end) {
        return fail(r, "a text without end");
    }
    r->at++;
    *to = '\0';
    return true;
}

/* --- values -------------------------------------------------------------- */

static size_t skip_digits(struct reader *r)
{
    char *from = r->at;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
    }
    return (size_t)(r->at - from);
}

static bool read_number(struct reader *r, struct simba__flat_member *member)
{
    const char *from;

    member->kind = SIMBA__FLAT_NUMBER;
    member->is_whole = true;
    if (*r->at == '-') {
        member->is_whole = false;
        r->at++;
    }
    from = r->at;
    if (skip_digits(r) == 0) {
        return fail(r, "a value was expected");
    }
    for (; from < r->at; from++) {
        unsigned digit = (unsigned)(*from - '0');

        member->is_whole &= member->number <= (UINT64_MAX - digit) / 10;
        member->number = member->number * 10 + digit;
    }
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        member->is_whole = false;
        if (skip_digits(r) == 0) {
            return fail(r, "a broken number");
        }
    }
    if (r->at < r->end && (*r->at | 0x20) == 'e') {
        r->at++;
        member->is_whole = false;
        r->at += r->at < r->end && (*r->at == '+' || *r->at == '-');
        if (skip_digits(r) == 0) {
            return fail(r, "a broken number");
        }
    }
    return true;
}

static bool read_word(struct reader *r, struct simba__flat_member *member)
{
    static const struct {
        const char *word;
        enum simba__flat_kind kind;
    } words[] = {{"true", SIMBA__FLAT_TRUE},
                 {"false", SIMBA__FLAT_FALSE},
                 {"null", SIMBA__FLAT_OTHER}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);

        if ((size_t)(r->end - r->at) >= length &&
            memcmp(r->at, words[i].word, length) == 0) {
            r->at += length;
            member->kind = words[i].kind;
            return true;
        }
    }
    return fail(r, "a value was expected");
}

static bool read_members(struct reader *r, simba__flat_fn member, void *user);

static bool read_array(struct reader *r);

/* NOLINTNEXTLINE(misc-no-recursion): no deeper than DEPTH_MOST */
static bool read_nested(struct reader *r)
{
    bool is_fine;

    if (++r->depth > DEPTH_MOST) {
        return fail(r, "too deep");
    }
    is_fine = *r->at == '{' ? (r->at++, read_members(r, NULL, NULL))
                            : (r->at++, read_array(r));
    r->depth--;
    return is_fine;
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static bool read_value(struct reader *r, struct simba__flat_member *member)
{
    skip_space(r);
    if (r->at == r->end) {
        return fail(r, "it ends too early");
    }
    member->kind = SIMBA__FLAT_OTHER;
    switch (*r->at) {
    case '"':
        member->kind = SIMBA__FLAT_TEXT;
        return read_text(r, &member->text);
    case '{':
    case '[':
        return read_nested(r);
    case 't':
    case 'f':
    case 'n':
        return read_word(r, member);
    default:
        return read_number(r, member);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static bool read_array(struct reader *r)
{
    struct simba__flat_member ignored = {.key = ""};

    if (take(r, ']')) {
        return true;
    }
    do {
        if (!read_value(r, &ignored)) {
            return false;
        }
    } while (take(r, ','));
    return take(r, ']') || fail(r, "an array without end");
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static bool read_members(struct reader *r, simba__flat_fn member, void *user)
{
    if (take(r, '}')) {
        return true;
    }
    do {
        struct simba__flat_member m = {.key = NULL};

        if (!read_text(r, &m.key)) {
            return false;
        }
        if (!take(r, ':')) {
            return fail(r, "a colon was expected");
        }
        if (!read_value(r, &m)) {
            return false;
        }
        if (member != NULL) {
            member(user, &m);
        }
    } while (take(r, ','));
    return take(r, '}') || fail(r, "an object without end");
}

const char *simba__flat_read(char *line,
                             size_t length,
                             simba__flat_fn member,
                             void *user)
{
    struct reader r = {.at = line, .end = line + length};

    if (!take(&r, '{')) {
        return "not a JSON object";
    }
    if (read_members(&r, member, user)) {
        skip_space(&r);
        if (r.at != r.end) {
            (void)fail(&r, "something follows the object");
        }
    }
    return r.problem;
}
