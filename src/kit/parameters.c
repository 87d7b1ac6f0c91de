#define _GNU_SOURCE
#include "kit/parameters.h"

#include "kit/secret.h"
#include "kit/url.h"
#include "util/guess.h"
#include "util/text.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* Of every networked store: their settings begin with a struct simba__url. */
static const struct simba__parameter of_all[] = {
    {"user", SIMBA__PARAMETER_TEXT, offsetof(struct simba__url, user), NULL, 0,
     "as before the @"},
    {"password", SIMBA__PARAMETER_TEXT, offsetof(struct simba__url, password),
     NULL, 0, "as before the @"},
    {"password_file", SIMBA__PARAMETER_TEXT,
     offsetof(struct simba__url, password_file), NULL, 0,
     "its first line is the password; others must not be able to read it"},
};

static const struct simba__parameter of_tls[] = {
    {"tls", SIMBA__PARAMETER_CHOICE, offsetof(struct simba__tls_settings, use),
     SIMBA__OFF_ON " unverified", 0,
     "whether to speak TLS; unverified: with whoever answers"},
    {"verify", SIMBA__PARAMETER_FLAG,
     offsetof(struct simba__tls_settings, is_verified), SIMBA__OFF_ON, 0,
     "off is the same as tls=unverified"},
    {"ca", SIMBA__PARAMETER_TEXT, offsetof(struct simba__tls_settings, ca),
     NULL, 0, "a file of certificates to trust instead of the system's"},
    {"cert", SIMBA__PARAMETER_TEXT, offsetof(struct simba__tls_settings, cert),
     NULL, 0, "a file with our certificate"},
    {"key", SIMBA__PARAMETER_TEXT, offsetof(struct simba__tls_settings, key),
     NULL, 0, "a file with the key of cert"},
};

enum {
    OF_ALL = sizeof of_all / sizeof of_all[0],
    OF_TLS = sizeof of_tls / sizeof of_tls[0]
};

/* The parameters one by one: a store's own, then those that several have.
 * False: no more. */
static bool parameter_at(const struct simba__url_form *form,
                         size_t index,
                         struct simba__parameter *out)
{
    const struct simba__parameter *p = form->parameters;

    for (; p != NULL && p->name != NULL; p++) {
        if (index-- == 0) {
            *out = *p;
            return true;
        }
    }
    if (form->tls_offset != 0 && index < OF_TLS) {
        *out = of_tls[index];
        out->offset += form->tls_offset;
        return true;
    }
    index -= form->tls_offset != 0 ? OF_TLS : 0;
    if (form->is_networked && index < OF_ALL) {
        *out = of_all[index];
        return true;
    }
    return false;
}

/* --- words --------------------------------------------------------------- */

/* Which of "a b|other_form c" a value is; -1: none. */
static int word_of(const char *words, const char *value)
{
    size_t length = strlen(value);
    int index = 0;

    while (*words != '\0') {
        size_t word = strcspn(words, " |");

        if (word == length && strncasecmp(words, value, word) == 0) {
            return index;
        }
        words += word;
        if (*words != '\0') {
            index += *words++ == ' ';
        }
    }
    return -1;
}

/* What a value may be: "a, b or c", or numbers. */
static void put_allowed(struct simba__text *text,
                        const struct simba__parameter *p)
{
    const char *words = p->words;

    if (words == NULL) {
        simba__text_put(text, "a number");
        if (p->most < UINT64_MAX) {
            simba__text_printf(text, " up to %" PRIu64, p->most);
        }
        return;
    }
    for (bool is_first = true; *words != '\0'; is_first = false) {
        const char *next = words + strcspn(words, " ");

        if (!is_first) {
            simba__text_put(text, *next == '\0' ? " or " : ", ");
        }
        simba__text_add(text, words, strcspn(words, " |"));
        words = next + (*next == ' ');
    }
}

/* --- reading ------------------------------------------------------------- */

/* What looks like a name is shown; anything else may be a secret. */
static const char *showable(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz_"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");

    return length > 0 && length <= 32 && name[length] == '\0' ? name : "?";
}

static int refuse_name(const struct simba__url_form *form,
                       const char *name,
                       simba_error *error)
{
    char room[192];
    struct simba__text text = simba__text_fixed(room, sizeof room);
    struct simba__parameter p;

    simba__text_printf(&text, "unknown parameter \"%s\"; ", showable(name));
    for (size_t i = 0; parameter_at(form, i, &p); i++) {
        if (p.help != NULL && simba__guess_is_near(name, p.name)) {
            simba__text_printf(&text, "is %s meant?", p.name);
            return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s",
                                   form->store, room);
        }
    }
    simba__text_put(&text,
                    parameter_at(form, 0, &p) ? "there are" : "there are none");
    for (size_t i = 0; parameter_at(form, i, &p); i++) {
        if (p.help != NULL) {
            simba__text_printf(&text, "%s %s", i == 0 ? "" : ",", p.name);
        }
    }
    return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s", form->store, room);
}

static bool take_value(const struct simba__parameter *p,
                       const char *value,
                       void *settings)
{
    void *to = (char *)settings + p->offset;
    int word = p->words == NULL ? -1 : word_of(p->words, value);
    uint64_t number = 0;

    switch (p->type) {
    case SIMBA__PARAMETER_TEXT:
        *(const char **)to = value;
        return true;
    case SIMBA__PARAMETER_CHOICE:
    case SIMBA__PARAMETER_FLAG:
        if (word >= 0 && p->type == SIMBA__PARAMETER_FLAG) {
            *(bool *)to = word > 0;
        } else if (word >= 0) {
            *(int *)to = word;
        }
        return word >= 0;
    case SIMBA__PARAMETER_INT:
        assert(p->most <= INT32_MAX);
        if (!simba__text_number(value, p->most, &number)) {
            return false;
        }
        *(int *)to = (int)number;
        return true;
    case SIMBA__PARAMETER_U64:
        return simba__text_number(value, p->most, (uint64_t *)to);
    }
    return false;
}

static int read_one(const struct simba__url_form *form,
                    char *name,
                    void *settings,
                    simba_error *error)
{
    struct simba__parameter p;
    size_t i = 0;
    char *value = strchr(name, '=');
    char room[128];
    struct simba__text allowed = simba__text_fixed(room, sizeof room);

    if (value != NULL) {
        *value++ = '\0';
    }
    if (!simba__text_unescape(name) ||
        (value != NULL && !simba__text_unescape(value))) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: broken %%-escape in a parameter",
                               form->store);
    }
    while (parameter_at(form, i, &p) && strcmp(p.name, name) != 0) {
        i++;
    }
    if (!parameter_at(form, i, &p)) {
        return refuse_name(form, name, error);
    }
    if (value == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: parameter %s has no value", form->store,
                               name);
    }
    if (!take_value(&p, value, settings)) {
        put_allowed(&allowed, &p);
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: parameter %s must be %s", form->store, name,
                               room);
    }
    return SIMBA_OK;
}

int simba__parameters_read(const struct simba__url_form *form,
                           char *list,
                           void *settings,
                           simba_error *error)
{
    const char separators[] = {form->separator, '\0'};
    char *rest = list;
    char *one;
    int rc = SIMBA_OK;

    while (rc == SIMBA_OK &&
           (one = strsep(&rest, form->separator == 0 ? "&" : separators)) !=
               NULL) {
        if (*one != '\0') {
            rc = read_one(form, one, settings, error);
        }
    }
    return rc;
}

/* --- help ---------------------------------------------------------------- */

/* Adds words, breaking lines between them. */
static void put_wrapped(struct simba__text *text, const char *words)
{
    enum { INDENT = 22, WIDTH = 79 };
    size_t column = INDENT;

    while (*words != '\0') {
        size_t length = strcspn(words, " ");

        if (column > INDENT && column + 1 + length > WIDTH) {
            simba__text_printf(text, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            simba__text_put(text, " ");
            column++;
        }
        simba__text_add(text, words, length);
        column += length;
        words += length + (words[length] == ' ');
    }
    simba__text_put(text, "\n");
}

char *simba__parameters_help(const struct simba__url_form *form)
{
    struct simba__text text = {0};
    struct simba__parameter p;

    simba__text_printf(&text, "%s\n", form->example);
    for (size_t i = 0; parameter_at(form, i, &p); i++) {
        char room[256];
        struct simba__text words = simba__text_fixed(room, sizeof room);

        if (p.help != NULL) {
            simba__text_put(&words, p.help);
            if (p.type != SIMBA__PARAMETER_TEXT) {
                simba__text_put(&words, " (");
                put_allowed(&words, &p);
                simba__text_put(&words, ")");
            }
            simba__text_printf(&text, "  %-18s  ", p.name);
            put_wrapped(&text, room);
        }
    }
    if (form->separator == 0) { /* the library's own: api/settings */
        simba__text_printf(&text, "  %-18s  ", "spin");
        put_wrapped(&text,
                    "how many microseconds to look for a reply before "
                    "sleeping, at most; only while that is faster; off: "
                    "never (default: 100, or up to 300 where an idle CPU "
                    "takes very long to wake)");
    }
    return simba__text_take(&text);
}

/* --- TLS ----------------------------------------------------------------- */

int simba__tls_settle(struct simba__tls_settings *tls,
                      const struct simba__url_form *form,
                      bool otherwise,
                      simba_error *error)
{
    const char *const files[] = {tls->ca, tls->cert, tls->key};
    const char *problem = NULL;
    int rc = SIMBA_OK;

    for (size_t i = 0; rc == SIMBA_OK && i < 3; i++) {
        rc = simba__library_file_check(form->store, files[i],
                                       files[i] == tls->key, error);
    }
    if (rc != SIMBA_OK) {
        return rc;
    }
    if (tls->use == SIMBA__TLS_UNSAID) {
        tls->use = otherwise ? SIMBA__TLS_ON : SIMBA__TLS_OFF;
    }
    if (tls->use == SIMBA__TLS_ON && !tls->is_verified) {
        tls->use = SIMBA__TLS_UNVERIFIED;
    }
    tls->is_on = tls->use != SIMBA__TLS_OFF;
    tls->is_verified = tls->use == SIMBA__TLS_ON;
    if ((tls->cert == NULL) != (tls->key == NULL)) {
        problem = "cert and key belong together";
    } else if (!tls->is_on && (tls->ca != NULL || tls->cert != NULL)) {
        problem = "certificates are for TLS: write tls=on";
    }
    return problem == NULL ? SIMBA_OK
                           : simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s",
                                             form->store, problem);
}
