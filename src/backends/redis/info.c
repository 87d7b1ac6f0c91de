/* Reading what INFO tells; see info.h. */
#include "backends/redis/info.h"

#include <string.h>

void simba__redis_info_field(const char *info,
                             const char *name,
                             char *value,
                             size_t room)
{
    size_t length = strlen(name);
    const char *line = info;

    value[0] = '\0';
    while (line != NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            size_t count = strcspn(line + length + 1, "\r\n");

            count = count < room ? count : room - 1;
            memcpy(value, line + length + 1, count);
            value[count] = '\0';
            return;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
}

bool simba__redis_info_is(const char *info,
                          const char *name,
                          const char *wanted)
{
    char value[32];

    simba__redis_info_field(info, name, value, sizeof value);
    return strcmp(value, wanted) == 0;
}
