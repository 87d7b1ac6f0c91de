/* Which backend speaks for a URL. The embedded ones are linked in; the others
 * are modules, loaded when their scheme is first used, so that a program gets
 * no client library it never uses. */
#include "api/store.h"

#include "backends/memory/memory.h"
#include "backends/sqlite/sqlite.h"
#include "shims/shims.h"

#include <ctype.h>
#include <string.h>

enum { SCHEME_MOST = 32 };

static int take_scheme(const char *url,
                       char *scheme,
                       const char **rest,
                       simba_error *error)
{
    const char *colon = strchr(url, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - url);

    if (length == 0 || length >= SCHEME_MOST) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "not a store URL: it should begin as in "
                               "sqlite:path or redis://host");
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)url[i];
        if (!isalnum(c) && c != '+' && c != '-') {
            return simba_error_set(error, SIMBA_EINVAL, 0,
                                   "not a store URL: bad scheme");
        }
        scheme[i] = (char)tolower(c);
    }
    scheme[length] = '\0';
    *rest = colon + 1;
    return SIMBA_OK;
}

int simba__registry_find(const char *url,
                         struct simba__found *found,
                         simba_error *error)
{
    static const simba_backend_ops *const embedded[] = {
        &simba__memory_ops, &simba__sqlite_ops, &simba__fault_ops,
        &simba__trace_ops,  &simba__stat_ops,   NULL};
    char scheme[SCHEME_MOST];
    int rc = take_scheme(url, scheme, &found->rest, error);

    found->module = NULL;
    if (rc != SIMBA_OK) {
        return rc;
    }
    for (int i = 0; embedded[i] != NULL; i++) {
        if (strcmp(embedded[i]->scheme, scheme) == 0) {
            found->ops = embedded[i];
            return SIMBA_OK;
        }
    }
    return simba__module_load(scheme, found, error);
}
