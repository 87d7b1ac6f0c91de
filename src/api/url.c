/* Secrets in store URLs: hiding them, and putting them in. */
#define _GNU_SOURCE
#include "api/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where user and password end: the @ before the host. One that is not encoded
 * as it should be may hold anything, so with a colon before it the last @ of
 * all counts. */
static char *end_of_user(char *start)
{
    char *last = strrchr(start, '@');
    char *colon = strchr(start, ':');

    if (last != NULL && colon != NULL && colon < last) {
        return last;
    }
    return memrchr(start, '@', strcspn(start, "/?"));
}

/* A word that is no name=value may be a value, too. */
static void hide_values(char *query)
{
    const char *from = query;
    char *to = query;

    while (*from != '\0') {
        size_t length = strcspn(from, "&");
        size_t name = strcspn(from, "=&");

        if (name < length) {
            memmove(to, from, ++name);
            to += name;
        } else {
            name = 0;
        }
        if (name < length) {
            *to++ = '*';
        }
        from += length;
        if (*from == '&') {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

/* What is left over is wiped: it may be a part of what ps(1) shows. */
void simba_url_hide_secrets(char *url)
{
    size_t length = strlen(url);
    char *slashes = strstr(url, "://");
    char *at = slashes == NULL ? NULL : end_of_user(slashes + 3);
    char *query;

    if (at != NULL) {
        memmove(slashes + 3, at + 1, strlen(at + 1) + 1);
    }
    query = strchr(url, '?');
    if (query != NULL) {
        hide_values(query + 1);
    }
    explicit_bzero(url + strlen(url), length - strlen(url));
}

bool simba__url_has_secret(const char *url)
{
    const char *start = strstr(url, "://");
    const char *query = strchr(url, '?');
    const char *at;

    if (query != NULL && strcasestr(query, "password") != NULL) {
        return true;
    }
    if (start == NULL) {
        return false;
    }
    start += strlen("://");
    at = memrchr(start, '@', strcspn(start, "/?"));
    return at != NULL && memchr(start, ':', (size_t)(at - start)) != NULL;
}

/* --- putting in ---------------------------------------------------------- */

static char *encode(char *to, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) != NULL) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = '\0';
    return to;
}

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

/* Room enough: everything encoded, and : and @. */
static char *assemble(const char *url,
                      const struct simba__credentials *credentials)
{
    const char *user = credentials->user != NULL ? credentials->user : "";
    const char *password = credentials->password;
    size_t most = strlen(url) + 3 * strlen(user) + 3;
    const char *start = strstr(url, "://") + strlen("://");
    const char *at = memrchr(start, '@', strcspn(start, "/?"));
    const char *head_end = at != NULL ? at : start;
    const char *rest = at != NULL ? at + 1 : start;
    char *whole, *to;

    most += password != NULL ? 3 * strlen(password) : 0;
    whole = malloc(most);
    if (whole == NULL) {
        return NULL;
    }
    to = mempcpy(whole, url, (size_t)(head_end - url));
    to = encode(to, user);
    if (password != NULL) {
        *to++ = ':';
        to = encode(to, password);
    }
    *to++ = '@';
    memcpy(to, rest, strlen(rest) + 1);
    return whole;
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
