/* Config files: read and checked, the store found in them. No message shows a
 * value (S13). */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "api/config_file.h"
#include "api/settings.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char mark[] = "hUnTeR";

/* Keys, names of sections and paths are shown. */
static bool is_in_key(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *rest = text, *line;
    bool is_found = false;

    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strstr(line, "password_file") == NULL) {
            line[strcspn(line, "=")] = '\0';
        }
        is_found |= strstr(line, mark) != NULL;
    }
    free(text);
    return is_found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct simba__settings settings;
    simba_error error = {0};
    char path[64], shown[256];

    if (fd < 0) {
        fd = memfd_create("config", MFD_CLOEXEC);
        FUZZ_CHECK(fd >= 0 && fchmod(fd, 0600) == 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        setenv("SIMBA_CONFIG", path, 1);
        unsetenv("SIMBA_STORE");
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
    for (int i = 0; i < 2; i++) {
        const char *given = i == 0 ? NULL : "prod";

        if (simba__settings_find(&settings, given, SIMBA_CONFIG_ALWAYS,
                                 &error) == SIMBA_OK) {
            FUZZ_CHECK(settings.url != NULL && settings.ttl_ms >= 0);
        }
        simba__settings_free(&settings);
        if (simba_store_describe(given, shown, sizeof shown, &error) ==
            SIMBA_OK) {
            FUZZ_CHECK(strlen(shown) < sizeof shown);
        }
        FUZZ_CHECK(strstr(error.message, mark) == NULL ||
                   is_in_key(data, size));
    }
    return 0;
}
