/* URLs: what is hidden of them, what each store makes of them, and that no
 * password is ever shown.
 *
 * The first byte chooses how the text behind it is used: as it is, or cut in
 * two at the byte's low bits, a password before the @ and whatever follows. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "api/settings.h"
#include "backends/mysql/mysql.h"
#include "backends/postgres/postgres.h"
#include "backends/redis/redis.h"
#include "backends/sqlite/sqlite.h"
#include "backends/zookeeper/zookeeper.h"
#include "kit/secret.h"

#include <stdio.h>

/* A password is looked for in what is shown, if it can be told from the rest:
 * it has this in it, which is nowhere else. */
static const char mark[] = "hUnTeR";

static void check_message(const simba_error *error, bool has_mark)
{
    FUZZ_CHECK(strnlen(error->message, sizeof error->message) <
               sizeof error->message);
    FUZZ_CHECK(!has_mark || strstr(error->message, mark) == NULL);
}

/* What stores read, and what they would show of it. */
static void read_url(const char *url, bool has_mark)
{
    const char *colon = strchr(url, ':'), *rest;
    struct simba__redis_settings redis;
    struct simba__sqlite_settings sqlite;
    struct simba__my_settings mysql;
    struct simba__zk_settings zookeeper;
    struct simba__pg pg = {0};
    simba_error error = {0};

    if (colon == NULL) {
        return; /* it would not come so far */
    }
    rest = colon + 1;
    if (simba__redis_settings_init(&redis, url, &error) == SIMBA_OK) {
        FUZZ_CHECK(!has_mark || strstr(redis.shown, mark) == NULL);
    }
    check_message(&error, has_mark);
    simba__redis_settings_fini(&redis);
    error = (simba_error){0};
    (void)simba__sqlite_settings_init(&sqlite, rest, &error);
    check_message(&error, has_mark);
    simba__sqlite_settings_fini(&sqlite);
    error = (simba_error){0};
    if (simba__my_settings_read(&mysql, rest, &error) == SIMBA_OK) {
        simba__my_settings_fini(&mysql);
    }
    check_message(&error, has_mark);
    error = (simba_error){0};
    (void)simba__zk_settings_init(&zookeeper, rest, &error);
    check_message(&error, has_mark);
    simba__zk_settings_fini(&zookeeper);
    error = (simba_error){0};
    if (simba__pg_settings_read(&pg, url, &error) == SIMBA_OK) {
        FUZZ_CHECK(!has_mark || strstr(pg.sql.shown, mark) == NULL);
        simba__pg_settings_fini(&pg);
    }
    check_message(&error, has_mark);
}

static void hide(const char *url, bool has_mark)
{
    size_t length = strlen(url);
    char *hidden = strdup(url);
    char shown[256];

    FUZZ_CHECK(hidden != NULL);
    simba__url_hide(hidden);
    FUZZ_CHECK(strlen(hidden) <= length);
    FUZZ_CHECK(!has_mark || strstr(hidden, mark) == NULL);
    /* What is hidden once stays so. */
    simba__url_hide(hidden);
    FUZZ_CHECK(!has_mark || strstr(hidden, mark) == NULL);
    free(hidden);
    (void)simba__url_has_secret(url);
    if (simba_store_describe(url, shown, sizeof shown, NULL) == SIMBA_OK) {
        FUZZ_CHECK(!has_mark || strstr(shown, mark) == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const heads[] = {
        "redis://u:",     "redis+cluster://u:", "rediss://:",
        "postgres://u:",  "mysql://u:",         "zookeeper://u:",
        "postgresql://:", "redis+sentinel://u:"};
    uint8_t choice = size == 0 ? 0 : data[0];
    char *text, *url = NULL;
    size_t length, cut;

    if (size == 0) {
        return 0;
    }
    setenv("SIMBA_CONFIG", "/dev/null", 1);
    text = fuzz_text(data + 1, size - 1);
    length = strlen(text);
    if ((choice & 128) == 0) {
        hide(text, false);
        read_url(text, false);
    } else if (strcasestr(text, mark) == NULL) {
        /* The password is what stands before the cut, and the mark. */
        cut = (size_t)(choice >> 3 & 15);
        cut = cut < length ? cut : length;
        FUZZ_CHECK(asprintf(&url, "%s%.*s%s@%s", heads[choice & 7], (int)cut,
                            text, mark, text + cut) >= 0);
        FUZZ_CHECK(simba__url_has_secret(url));
        hide(url, true);
        read_url(url, true);
        free(url);
    }
    free(text);
    return 0;
}
