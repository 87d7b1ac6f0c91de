#define _GNU_SOURCE
#include "kit/url.h"

#include "kit/secret.h"
#include "util/array.h"
#include "util/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_memory(const struct simba__url_form *form, simba_error *error)
{
    return simba_error_set(error, SIMBA_ENOMEM, 0, "%s: out of memory",
                           form->store);
}

int simba__url_refuse(const struct simba__url_form *form,
                      const char *why,
                      simba_error *error)
{
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "%s: %s; a URL looks like %s", form->store, why,
                           form->example);
}

int simba__url_refuse_torn(const struct simba__url_form *form,
                           simba_error *error)
{
    return simba_error_set(error, SIMBA_EINVAL, 0,
                           "%s: the URL is not understood; in users and "
                           "passwords write / as %%2F, ? as %%3F and @ as %%40",
                           form->store);
}

/* --- hosts --------------------------------------------------------------- */

/* host, host:port, [v6], [v6]:port; says what is wrong, or NULL. */
static const char *read_host(simba_connection_host *host, char *text)
{
    char *colon;
    uint64_t port = 0;

    if (text[0] == '[') {
        colon = strchr(++text, ']');
        if (colon == NULL) {
            return "an address in [] has no end";
        }
        *colon++ = '\0';
        if (*colon != ':' && *colon != '\0') {
            return "what follows an address in [] is no port";
        }
    } else {
        colon = strchrnul(text, ':');
    }
    if (*colon == ':') {
        *colon++ = '\0';
        if (!simba__text_number(colon, UINT16_MAX, &port) || port == 0) {
            return "a port is a number from 1 to 65535";
        }
    }
    *host = (simba_connection_host){text, (int)port};
    if (!simba__text_unescape(text)) {
        return "a host has a broken %-escape";
    }
    return *text == '\0' ? "a host has no name"
           : strchr(text, '@') != NULL
               ? "the @ before a host must not be escaped"
               : NULL;
}

static int read_hosts(struct simba__url *url,
                      const struct simba__url_form *form,
                      char *hosts,
                      simba_error *error)
{
    size_t room = 0;
    char *one;

    while ((one = strsep(&hosts, ",")) != NULL) {
        const char *problem;

        if (*one == '\0') {
            continue;
        }
        if (!simba__array_reserve(&url->hosts, &room, url->host_count + 1,
                                  sizeof *url->hosts)) {
            return fail_memory(form, error);
        }
        problem = read_host(&url->hosts[url->host_count], one);
        if (problem != NULL) {
            return simba__url_refuse(form, problem, error);
        }
        if (url->hosts[url->host_count].port == 0) {
            url->hosts[url->host_count].port = form->port;
        }
        url->host_count++;
    }
    return SIMBA_OK;
}

/* --- who ----------------------------------------------------------------- */

/* A copy of SIMBA_<STORE>_<WHAT>, unless our rights are not our caller's. */
static int from_environment(const struct simba__url_form *form,
                            const char *what,
                            char **own)
{
    char name[64];
    const char *given;

    (void)snprintf(name, sizeof name, "SIMBA_%s_%s", form->store, what);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    given = secure_getenv(name);
    *own = given == NULL || given[0] == '\0' ? NULL : strdup(given);
    return *own == NULL && given != NULL && given[0] != '\0' ? SIMBA_ENOMEM
                                                             : SIMBA_OK;
}

int simba__url_credentials(struct simba__url *url,
                           const struct simba__url_form *form,
                           simba_error *error)
{
    simba_error why;
    int rc = SIMBA_OK;

    if (url->password_file != NULL && url->password != NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: password_file: there is a password already",
                               form->store);
    }
    if (url->password_file != NULL) {
        rc = simba__secret_read(url->password_file, &url->own_password, &why);
        if (rc != SIMBA_OK) {
            return simba_error_set(error, rc, why.native,
                                   "%s: password_file: %s", form->store,
                                   why.message);
        }
    } else if (url->password == NULL) {
        rc = from_environment(form, "PASSWORD", &url->own_password);
    }
    if (rc == SIMBA_OK && url->user == NULL) {
        rc = from_environment(form, "USER", &url->own_user);
    }
    if (rc != SIMBA_OK) {
        return fail_memory(form, error);
    }
    url->password = url->password == NULL ? url->own_password : url->password;
    url->user = url->user == NULL ? url->own_user : url->user;
    return SIMBA_OK;
}

/* --- the whole ----------------------------------------------------------- */

static int read_authority(struct simba__url *url,
                          const struct simba__url_form *form,
                          char *authority,
                          simba_error *error)
{
    char *hosts = strrchr(authority, '@');
    char *password;

    if (hosts == NULL) {
        return read_hosts(url, form, authority, error);
    }
    *hosts++ = '\0';
    password = strchr(authority, ':');
    if (password != NULL) {
        *password++ = '\0';
        url->password = password;
    }
    if (!simba__text_unescape(authority) ||
        (password != NULL && !simba__text_unescape(password))) {
        return simba__url_refuse(form, "user or password has a broken %-escape",
                                 error);
    }
    url->user = authority[0] == '\0' ? NULL : authority;
    return read_hosts(url, form, hosts, error);
}

/* Cuts the text into its pieces. */
static int read_pieces(struct simba__url *url,
                       const struct simba__url_form *form,
                       simba_error *error)
{
    char *rest = url->text;
    char *query, *authority = NULL;
    int rc = SIMBA_OK;

    query = strchr(rest, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    if (strncmp(rest, "//", 2) == 0) {
        size_t length = strcspn(rest + 2, "/");

        /* To the left, so that there is room for its end. */
        authority = memmove(rest, rest + 2, length);
        rest += 2 + length;
        authority[length] = '\0';
        url->authority = authority;
    }
    url->path = rest;
    if (form->is_networked) {
        if (authority == NULL) {
            return simba__url_refuse(form, "not a URL", error);
        }
        if (strchr(url->path, '@') != NULL) {
            return simba__url_refuse_torn(form, error);
        }
        rc = read_authority(url, form, authority, error);
    }
    if (rc == SIMBA_OK && query != NULL) {
        rc = simba__parameters_read(form, query, url, error);
    }
    return rc == SIMBA_OK && form->is_networked
               ? simba__url_credentials(url, form, error)
               : rc;
}

int simba__url_read(struct simba__url *url,
                    const struct simba__url_form *form,
                    const char *rest,
                    simba_error *error)
{
    *url = (struct simba__url){.size = strlen(rest)};
    url->text = strdup(rest);
    if (url->text == NULL) {
        return fail_memory(form, error);
    }
    return form->is_networked && strncmp(rest, "//", 2) == 0 &&
                   simba__url_is_torn(rest + 2)
               ? simba__url_refuse_torn(form, error)
               : read_pieces(url, form, error);
}

void simba__url_fini(struct simba__url *url)
{
    if (url->text != NULL) {
        explicit_bzero(url->text, url->size);
        free(url->text);
    }
    free(url->hosts);
    free(url->own_user);
    simba__secret_free(url->own_password);
    *url = (struct simba__url){0};
}

int simba__url_take(char *text, const char *name, char **value)
{
    size_t length = strlen(name);
    char *from = strchr(text, '?');

    *value = NULL;
    while (from != NULL) {
        char *end = strchrnul(++from, '&');

        if (strncmp(from, name, length) == 0 && from[length] == '=') {
            *value =
                strndup(from + length + 1, (size_t)(end - from) - length - 1);
            if (*value == NULL) {
                return SIMBA_ENOMEM;
            }
            memmove(from, end + (*end == '&'), strlen(end) + (*end != '&'));
            return simba__text_unescape(*value) ? SIMBA_OK : SIMBA_EINVAL;
        }
        from = *end == '\0' ? NULL : end;
    }
    return SIMBA_OK;
}

bool simba__url_is_local(const char *hosts)
{
    static const char *const names[] = {"localhost", "::1", "[::1]"};

    while (hosts != NULL && hosts[0] != '\0') {
        size_t length = strcspn(hosts, ",");
        bool is_local = length == 0 || hosts[0] == '/' || hosts[0] == '@' ||
                        (length > 4 && strncmp(hosts, "127.", 4) == 0 &&
                         strspn(hosts, "0123456789.") >= length);

        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            is_local |= strlen(names[i]) == length &&
                        strncmp(names[i], hosts, length) == 0;
        }
        if (!is_local) {
            return false;
        }
        hosts += length + (hosts[length] == ',' ? 1 : 0);
    }
    return true;
}

void simba__url_show(const char *host, int port, char *shown, size_t room)
{
    /* Of a long path the end tells more than the beginning. */
    size_t length = strlen(host), most = room - 8;

    host += length > most ? length - most : 0;
    if (port == 0) {
        snprintf(shown, room, "%s", host);
    } else {
        snprintf(shown, room, strchr(host, ':') == NULL ? "%s:%d" : "[%s]:%d",
                 host, port);
    }
    for (char *c = shown; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}
