#define _GNU_SOURCE
#include "util/json.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/unit_test.h"

static void becomes(const char *string, const char *quoted)
{
    char room[64];
    struct simba__text text = simba__text_fixed(room, sizeof room);

    simba__json_quote(&text, string);
    assert_string_equal(room, quoted);
}

TEST(test_json__strings_are_escaped)
{
    becomes("", "\"\"");
    becomes("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
            "\"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    becomes("a\"b\\c", "\"a\\\"b\\\\c\"");
    becomes("\n\x01\x7f", "\"\\u000a\\u0001\\u007f\"");
}

TEST(test_json__what_is_no_utf8_is_replaced)
{
    becomes("\xff", "\"\\ufffd\"");
    becomes("a\xc3", "\"a\\ufffd\"");                     /* cut */
    becomes("\xc0\xaf", "\"\\ufffd\\ufffd\"");            /* overlong */
    becomes("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
    becomes("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* overlong */
    becomes("\xf5\x80", "\"\\ufffd\\ufffd\"");            /* too far */
    becomes("\xc3\xa9\x80z", "\"\xc3\xa9\\ufffdz\"");     /* stray */
}

static void write_all(struct simba__json *json)
{
    struct simba__json item;

    simba__json_text(json, "text", "t");
    simba__json_text(json, "none", NULL);
    simba__json_number(json, "number", -5);
    simba__json_unsigned(json, "most", UINT64_MAX);
    simba__json_real(json, "real", 1.25, 1);
    simba__json_flag(json, "yes", true);
    simba__json_flag(json, "no", false);
    simba__json_token(json, "token", 7);
    simba__json_token(json, "no_token", 0);
    simba__json_list(json, "empty");
    simba__json_list_end(json);
    simba__json_list(json, "list");
    simba__json_item(&item, json);
    simba__json_number(&item, "a", 1);
    simba__json_end(&item);
    simba__json_item(&item, json);
    simba__json_end(&item);
    simba__json_list_end(json);
    simba__json_text(json, "last", NULL);
    simba__json_line(json);
}

static const char all[] =
    "{\"text\":\"t\",\"none\":null,\"number\":-5,"
    "\"most\":18446744073709551615,\"real\":1.2,\"yes\":true,\"no\":false,"
    "\"token\":7,\"no_token\":null,\"empty\":[],\"list\":[{\"a\":1},{}],"
    "\"last\":null}\n";

TEST(test_json__an_object_has_all_kinds_of_members)
{
    struct simba__text text = {0};
    struct simba__json json;
    char *written;

    simba__json_begin(&json, &text);
    write_all(&json);
    written = simba__text_take(&text);
    assert_string_equal(written, all);
    free(written);
}

TEST(test_json__a_file_gets_the_same)
{
    char *written = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&written, &size);
    struct simba__json json;

    simba__json_print(&json, file);
    write_all(&json);
    fclose(file);
    assert_string_equal(written, all);
    free(written);
}
