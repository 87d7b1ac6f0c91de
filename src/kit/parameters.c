#define _GNU_SOURCE
#include "kit/parameters.h"

#include "kit/url.h"
#include "util/guess.h"
#include "util/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
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

/* The parameters one by one; NULL: no more. */
static const struct simba__parameter *parameter_at(
    const struct simba__url_form *form,
    size_t index)
{
    const struct simba__parameter *p = form->parameters;

    for (; p != NULL && p->name != NULL; p++) {
        if (index-- == 0) {
            return p;
        }
    }
    return form->is_networked && index < sizeof of_all / sizeof of_all[0]
               ? &of_all[index]
               : NULL;
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
        simba__text_printf(text, "a number up to %" PRIu64, p->most);
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
    const struct simba__parameter *p;

    simba__text_printf(&text, "unknown parameter \"%s\"; ", showable(name));
    for (size_t i = 0; (p = parameter_at(form, i)) != NULL; i++) {
        if (p->help != NULL && simba__guess_is_near(name, p->name)) {
            simba__text_printf(&text, "is %s meant?", p->name);
            return simba_error_set(error, SIMBA_EINVAL, 0, "%s: %s",
                                   form->store, room);
        }
    }
    simba__text_put(&text, parameter_at(form, 0) == NULL ? "it takes none"
                                                         : "there are");
    for (size_t i = 0; (p = parameter_at(form, i)) != NULL; i++) {
        if (p->help != NULL) {
            simba__text_printf(&text, "%s %s", i == 0 ? "" : ",", p->name);
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
    const struct simba__parameter *p;
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
    for (size_t i = 0; (p = parameter_at(form, i)) != NULL; i++) {
        if (strcmp(p->name, name) == 0) {
            break;
        }
    }
    if (p == NULL) {
        return refuse_name(form, name, error);
    }
    if (value == NULL) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "%s: parameter %s has no value", form->store,
                               name);
    }
    if (!take_value(p, value, settings)) {
        put_allowed(&allowed, p);
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
    const char separators[] = {form->separator == 0 ? '&' : form->separator,
                               '\0'};
    char *rest = list;
    char *one;
    int rc = SIMBA_OK;

    while (rc == SIMBA_OK && (one = strsep(&rest, separators)) != NULL) {
        if (*one != '\0') {
            rc = read_one(form, one, settings, error);
        }
    }
    return rc;
}

/* --- help ---------------------------------------------------------------- */

char *simba__parameters_help(const struct simba__url_form *form)
{
    struct simba__text text = {0};
    const struct simba__parameter *p;

    simba__text_printf(&text, "%s\n", form->example);
    for (size_t i = 0; (p = parameter_at(form, i)) != NULL; i++) {
        if (p->help != NULL) {
            simba__text_printf(&text, "  %-18s  %s", p->name, p->help);
            if (p->type != SIMBA__PARAMETER_TEXT) {
                simba__text_put(&text, " (");
                put_allowed(&text, p);
                simba__text_put(&text, ")");
            }
            simba__text_put(&text, "\n");
        }
    }
    return simba__text_take(&text);
}

/* --- TLS ----------------------------------------------------------------- */

int simba__tls_settle(struct simba__tls_settings *tls,
                      const struct simba__url_form *form,
                      bool otherwise,
                      simba_error *error)
{
    const char *problem = NULL;

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
