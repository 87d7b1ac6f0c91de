/* Finds TLS when it is wanted. See tls.h. */
#define _GNU_SOURCE
#include "kit/tls.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

simba_connection_filter simba__tls_filter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct simba__tls_module *loaded; /* under the lock */

/* It lies beside the module that wants it, and stays. */
static const struct simba__tls_module *load(void)
{
    char path[PATH_MAX];
    const char *end;
    Dl_info own;
    void *module = NULL;

    if (&simba_tls_module != NULL) {
        return &simba_tls_module;
    }
    if (dladdr(&simba__tls_filter, &own) != 0) {
        end = strrchr(own.dli_fname, '/');
        if (end != NULL && snprintf(path, sizeof path, "%.*s/simba_tls.so",
                                    (int)(end - own.dli_fname),
                                    own.dli_fname) < (int)sizeof path) {
            module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return module == NULL ? NULL : dlsym(module, "simba_tls_module");
}

static const struct simba__tls_module *find(void)
{
    const struct simba__tls_module *found;

    pthread_mutex_lock(&lock);
    if (loaded == NULL) {
        loaded = load();
        if (loaded != NULL && loaded->version == SIMBA__TLS_VERSION) {
            simba__tls_filter = loaded->filter;
        }
    }
    found = loaded;
    pthread_mutex_unlock(&lock);
    return found;
}

int simba__tls_context_open(const struct simba__tls_settings *tls,
                            const char *store,
                            simba__tls_context **out,
                            simba_error *error)
{
    const struct simba__tls_module *module;

    *out = NULL;
    if (!tls->is_on) {
        return SIMBA_OK;
    }
    module = find();
    if (module == NULL) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "%s: TLS is not installed: simba_tls.so "
                               "belongs beside simba-%s.so",
                               store, store);
    }
    if (module->version != SIMBA__TLS_VERSION) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "%s: simba_tls.so was made for another version "
                               "of simba than simba-%s.so",
                               store, store);
    }
    return module->open(tls, store, out, error);
}

void simba__tls_context_close(simba__tls_context *context)
{
    if (context != NULL) {
        find()->close(context);
    }
}
