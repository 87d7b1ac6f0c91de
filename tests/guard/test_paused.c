/* Guards on the servers they are made for: a paused owner's write is refused.
 *
 *   guard_paused_KIND URL     of a server that is there for this test */
#include "fixtures/paused_owner.h"
#include "resource.h"

enum { LEASE_MS = 2000 };

const char *server_url(void)
{
    return store_url;
}

static void test_guard__refuses_a_paused_owner(void **state)
{
    const struct way *way = *state;
    char text[32] = "";

    pause_an_owner(store_url, LEASE_MS, way->write_once);
    way->read(text, sizeof text);
    assert_string_equal(text, "new again");
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[4];
    size_t count = 0;

    if (argc > 1) {
        store_url = argv[1];
    }
    for (; ways[count].name != NULL; count++) {
        tests[count] = (struct CMUnitTest){
            .name = ways[count].name,
            .test_func = test_guard__refuses_a_paused_owner,
            .initial_state = (void *)(uintptr_t)&ways[count]};
    }
    return _cmocka_run_group_tests("guard", tests, count, NULL, NULL);
}
