/* What init does, as commands for the servers' own shell, zkCli.sh. */
#define _GNU_SOURCE
#include "backends/zookeeper/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As the shell takes it: a word may hold the other kind of quotes. */
static void put_word(FILE *out, const char *word, size_t length)
{
    char quote = memchr(word, '\'', length) == NULL ? '\'' : '"';

    fprintf(out, "%c%.*s%c", quote, (int)length, word, quote);
}

/* The user stands for whoever gave the right password; that is not told. */
static void put_acl(FILE *out, const struct simba__zk_settings *settings)
{
    const char *user = settings->auth == NULL ? "" : settings->auth;
    int length = (int)strcspn(user, ":");

    if (settings->acl == SIMBA__ZK_ACL_OPEN) {
        fputs(" world:anyone:cdrwa\n", out);
    } else {
        fprintf(out, " auth:%.*s:cdrwa%s\n", length, user,
                settings->acl == SIMBA__ZK_ACL_SHARED ? ",world:anyone:r" : "");
    }
}

static void put_create(FILE *out,
                       const struct simba__zk_settings *settings,
                       size_t length)
{
    fputs("create ", out);
    put_word(out, settings->base, length);
    fputs(" ''", out);
    put_acl(out, settings);
}

static void put_creates(FILE *out, const struct simba__zk_settings *settings)
{
    const char *base = settings->base, *end = base;

    while ((end = strchr(end + 1, '/')) != NULL) {
        put_create(out, settings, (size_t)(end - base));
    }
    put_create(out, settings, strlen(base));
}

/* Of a base that is there: replaced, unless it has mutexes. */
static void put_upgrade(FILE *out, const struct simba__zk_settings *settings)
{
    size_t length = strlen(settings->base);

    fputs("delete ", out);
    put_word(out, settings->base, length);
    fputs("\n", out);
    put_create(out, settings, length);
    fputs("setAcl ", out);
    put_word(out, settings->base, length);
    put_acl(out, settings);
}

static char *write_text(const struct simba__zk_settings *settings, bool upgrade)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    if (settings->auth != NULL) {
        fprintf(out, "addauth digest %.*s:PASSWORD\n",
                (int)strcspn(settings->auth, ":"), settings->auth);
    }
    if (upgrade) {
        put_upgrade(out, settings);
    } else {
        put_creates(out, settings);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error)
{
    struct simba__zk_settings settings;
    int rc = simba__zk_settings_init(&settings, config->rest, error);
    char *text = rc == SIMBA_OK ? write_text(&settings, upgrade) : NULL;

    if (rc == SIMBA_OK && text == NULL) {
        simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
    }
    simba__zk_settings_fini(&settings);
    return text;
}
