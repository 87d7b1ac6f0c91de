/* A store that refuses to be opened, and says by which URL: what a program and
 * its config file came to. */
#include <simba/sys/backend.h>

static int refuse(const simba_backend_config *config,
                  simba_backend **backend,
                  simba_error *error)
{
    *backend = NULL;
    return simba_error_set(error, SIMBA_EINVAL, 0, "%s", config->url);
}

static void never_submit(simba_backend *self, simba_request *request)
{
    (void)self;
    (void)request;
}

static void never_close(simba_backend *self)
{
    (void)self;
}

const simba_backend_ops simba_module = {
    .abi = SIMBA_BACKEND_ABI,
    .scheme = "echo",
    .open = refuse,
    .submit = never_submit,
    .close = never_close,
};
