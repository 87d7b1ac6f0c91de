/* The store's log: a line for people, and fields for programs. */
#define _GNU_SOURCE
#include "api/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { FIELDS_MOST = 5 };

void simba__log_nothing(void *user,
                        enum simba_log_level level,
                        const char *component,
                        const char *message)
{
    (void)user;
    (void)level;
    (void)component;
    (void)message;
}

const char *simba_log_level_name(enum simba_log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    int index = (int)level;

    return index >= 0 && index <= (int)SIMBA_LOG_DEBUG ? names[index] : "warn";
}

static void add(simba_log_event *event, const char *key, const char *value)
{
    /* The array is the caller's, and has room for all. */
    simba_log_field *fields = (simba_log_field *)event->fields;

    if (value != NULL) {
        fields[event->field_count++] = (simba_log_field){key, value};
    }
}

static void write_event(const simba_store *store,
                        const struct simba__log_entry *entry,
                        const char *message)
{
    simba_log_field fields[FIELDS_MOST];
    simba_log_event event = {.size = sizeof event,
                             .level = entry->level,
                             .component = entry->component,
                             .message = message,
                             .fields = fields};
    char token[24];

    (void)snprintf(token, sizeof token, "%" PRIu64, entry->token);
    add(&event, "mutex", entry->mutex);
    add(&event, "id", entry->id);
    add(&event, "token", entry->token == 0 ? NULL : token);
    add(&event, "cause", entry->cause);
    add(&event, "status",
        entry->status == SIMBA_OK ? NULL : simba_status_name(entry->status));
    store->log_event(store->log_user, &event);
}

static void write_entry(const simba_store *store,
                        const struct simba__log_entry *entry,
                        const char *message)
{
    if (store->log_event != NULL) {
        write_event(store, entry, message);
    } else {
        store->log(store->log_user, entry->level, entry->component, message);
    }
}

void simba__store_tell(const simba_store *store,
                       const struct simba__log_entry *entry,
                       const char *format,
                       ...)
{
    char message[640];
    int length = 0;
    va_list args;

    if (entry->level > store->log_level) {
        return;
    }
    if (entry->mutex != NULL) {
        length = snprintf(message, sizeof message, "%s: ", entry->mutex);
    }
    va_start(args, format);
    (void)vsnprintf(message + length, sizeof message - (size_t)length, format,
                    args);
    va_end(args);
    write_entry(store, entry, message);
}

void simba__store_log(const simba_store *store,
                      enum simba_log_level level,
                      const char *component,
                      const char *format,
                      ...)
{
    struct simba__log_entry entry = {.level = level, .component = component};
    char message[640];
    va_list args;

    if (level > store->log_level) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    write_entry(store, &entry, message);
}

void simba__store_log_plain(void *user,
                            enum simba_log_level level,
                            const char *component,
                            const char *message)
{
    struct simba__log_entry entry = {.level = level, .component = component};
    const simba_store *store = user;

    if (level <= store->log_level) {
        write_entry(store, &entry, message);
    }
}
