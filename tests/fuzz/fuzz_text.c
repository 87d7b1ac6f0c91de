/* Small things that people and stores write: durations, names, globs, numbers,
 * escapes, and our own JSON. The first byte chooses. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "core/name.h"
#include "util/guess.h"
#include "util/json.h"
#include "util/text.h"
#include "verify/json_line.h"

#include <simba/duration.h>
#include <simba/owner.h>

static void take_member(void *user, const struct simba__flat_member *member)
{
    char *text = user;

    if (member->kind == SIMBA__FLAT_TEXT) {
        FUZZ_CHECK(strlen(member->text) <= strlen(text) * 3);
    }
}

/* Whatever we write as JSON, our own reader takes. */
static void write_json(const char *text)
{
    struct simba__text out = {0};
    struct simba__json json;
    const char *problem;
    char *line;

    simba__json_begin(&json, &out);
    simba__json_text(&json, "text", text);
    simba__json_number(&json, "n", (int64_t)strlen(text));
    simba__json_end(&json);
    line = simba__text_take(&out);
    FUZZ_CHECK(line != NULL);
    problem = simba__flat_read(line, strlen(line), take_member, (void *)text);
    FUZZ_CHECK(problem == NULL);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    simba_owner owner;
    uint64_t number;
    int64_t ms = -1;
    char *text, *copy;
    size_t length;

    if (size == 0) {
        return 0;
    }
    text = fuzz_text(data + 1, size - 1);
    copy = fuzz_text(data + 1, size - 1);
    length = strlen(text);
    switch (data[0] % 6) {
    case 0:
        if (simba_duration_parse(text, &ms, NULL) == SIMBA_OK) {
            FUZZ_CHECK(ms >= 0);
        }
        break;
    case 1:
        if (simba__name_check_mutex(text, length) == SIMBA__NAME_FINE) {
            FUZZ_CHECK(length > 0 && length <= SIMBA_MUTEX_MAX_BYTES);
        }
        if (simba__name_check_id(text, length) == SIMBA__NAME_FINE) {
            FUZZ_CHECK(simba_owner_set_id(&owner, text));
        }
        break;
    case 2:
        if (simba__text_unescape(copy)) {
            FUZZ_CHECK(strlen(copy) <= length);
        }
        break;
    case 3:
        if (simba__text_number(text, 1000, &number)) {
            FUZZ_CHECK(number <= 1000);
        }
        (void)simba__guess_is_near(text, "conflict-exit-code");
        break;
    case 4:
        write_json(text);
        break;
    default:
        (void)simba__flat_read(copy, length, take_member, text);
        break;
    }
    free(copy);
    free(text);
    return 0;
}
