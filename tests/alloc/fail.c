#include "fail.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long countdown; /* 0: nothing fails */
static atomic_bool is_failed;
static atomic_long live;

void fail_at(long n)
{
    atomic_store(&is_failed, false);
    atomic_store(&countdown, n);
}

bool has_failed(void)
{
    return atomic_load(&is_failed);
}

long live_blocks(void)
{
    return atomic_load(&live);
}

/* Whose turn it is fails; later ones do not. */
static bool is_to_fail(void)
{
    long left = atomic_load(&countdown);

    while (left > 0 &&
           !atomic_compare_exchange_weak(&countdown, &left, left - 1)) {
    }
    if (left == 1) {
        atomic_store(&is_failed, true);
    }
    return left == 1;
}

static void *counted(void *block)
{
    if (block != NULL) {
        atomic_fetch_add(&live, 1);
    }
    return block;
}

/* What the linker makes of the functions' own names. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__real_realpath(const char *path, char *resolved);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_realpath(const char *path, char *resolved);
int __wrap_asprintf(char **text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void __wrap_free(void *block);

void *__wrap_malloc(size_t size)
{
    return is_to_fail() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_to_fail() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (is_to_fail()) {
        return NULL;
    }
    return block == NULL ? counted(__real_realloc(NULL, size))
                         : __real_realloc(block, size);
}

char *__wrap_strdup(const char *text)
{
    return is_to_fail() ? NULL : counted(__real_strdup(text));
}

char *__wrap_realpath(const char *path, char *resolved)
{
    char *result;

    if (is_to_fail()) {
        errno = ENOMEM;
        return NULL;
    }
    result = __real_realpath(path, resolved);
    return resolved == NULL ? counted(result) : result;
}

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list args;
    int length;

    if (is_to_fail()) {
        return -1;
    }
    va_start(args, format);
    length = vasprintf(text, format, args);
    va_end(args);
    (void)counted(length < 0 ? NULL : *text);
    return length;
}

void __wrap_free(void *block)
{
    if (block != NULL) {
        atomic_fetch_sub(&live, 1);
    }
    __real_free(block);
}

/* --- SQLite -------------------------------------------------------------- */

static sqlite3_mem_methods plain;

static void *sqlite_malloc(int size)
{
    return is_to_fail() ? NULL : plain.xMalloc(size);
}

static void *sqlite_realloc(void *block, int size)
{
    return is_to_fail() ? NULL : plain.xRealloc(block, size);
}

void fail_in_sqlite(void)
{
    sqlite3_mem_methods failing;

    sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
    failing = plain;
    failing.xMalloc = sqlite_malloc;
    failing.xRealloc = sqlite_realloc;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
    /* Small blocks would come from a pool of their own. */
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
}
