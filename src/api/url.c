/* Secrets in store URLs: hiding them, and putting them in. */
#define _GNU_SOURCE
#include "api/settings.h"

#include "kit/secret.h"
#include "util/text.h"

#include <string.h>

void simba_url_hide_secrets(char *url)
{
    simba__url_hide(url);
}

/* --- putting in ---------------------------------------------------------- */

static const char *why_not(const char *url,
                           const struct simba__credentials *credentials)
{
    const char *start = strstr(url, "://");
    const char *at;

    if (start == NULL) {
        return "this store knows no user or password";
    }
    start += strlen("://");
    at = memrchr(start, '@', strcspn(start, "/?"));
    if (at != NULL && credentials->user != NULL) {
        return "the URL names a user already";
    }
    if (at != NULL && memchr(start, ':', (size_t)(at - start)) != NULL) {
        return "the URL has a password already";
    }
    return NULL;
}

static char *assemble(const char *url,
                      const struct simba__credentials *credentials)
{
    const char *start = strstr(url, "://") + strlen("://");
    const char *at = memrchr(start, '@', strcspn(start, "/?"));
    const char *head_end = at != NULL ? at : start;
    struct simba__text whole = {0};

    simba__text_add(&whole, url, (size_t)(head_end - url));
    if (credentials->user != NULL) {
        simba__text_escape(&whole, credentials->user);
    }
    if (credentials->password != NULL) {
        simba__text_put(&whole, ":");
        simba__text_escape(&whole, credentials->password);
    }
    simba__text_put(&whole, "@");
    simba__text_put(&whole, at != NULL ? at + 1 : start);
    return simba__text_take(&whole);
}

int simba__url_with(const char *url,
                    const struct simba__credentials *credentials,
                    char **whole,
                    simba_error *error)
{
    const char *problem = NULL;

    *whole = NULL;
    if (credentials->user == NULL && credentials->password == NULL) {
        *whole = strdup(url);
    } else if ((problem = why_not(url, credentials)) != NULL) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s", problem);
    } else {
        *whole = assemble(url, credentials);
    }
    return *whole != NULL
               ? SIMBA_OK
               : simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
}
