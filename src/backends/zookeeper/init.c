#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the store needs: its base, /simba under the chroot. Whoever contends
 * makes it as a container, which the servers remove when nobody uses it. An
 * admin whose programs may not make nodes there makes one that stays. */

enum { PERMS_READ = 0x01, PERMS_ALL = 0x1f };

static const char *base_of(const struct simba__zk_visit *visit)
{
    return visit->self->settings.base;
}

/* --- the nodes ----------------------------------------------------------- */

static int make_node(const struct simba__zk_visit *visit, const char *path)
{
    return zoo_create(visit->plain.handle, path, "", 0,
                      simba__zk_acl(visit->self), ZOO_PERSISTENT, NULL, 0);
}

static bool is_there(const struct simba__zk_visit *visit, const char *path)
{
    struct Stat stat;

    return zoo_exists(visit->plain.handle, path, 0, &stat) == ZOK;
}

/* ZOK when it was made, ZNODEEXISTS when it was there. The servers look first
 * whether we may make a node, and then whether it is there. */
static int ensure_node(const struct simba__zk_visit *visit, const char *path)
{
    int rc = make_node(visit, path);

    return rc == ZNOAUTH && is_there(visit, path) ? ZNODEEXISTS : rc;
}

static int make_base(const struct simba__zk_visit *visit)
{
    char *path = strdup(base_of(visit));
    int rc = path == NULL ? ZSYSTEMERROR : ZOK;

    for (char *end = path == NULL ? NULL : strchr(path + 1, '/');
         end != NULL && (rc == ZOK || rc == ZNODEEXISTS);
         end = strchr(end + 1, '/')) {
        *end = '\0';
        rc = ensure_node(visit, path);
        *end = '/';
    }
    if (rc == ZOK || rc == ZNODEEXISTS) {
        rc = ensure_node(visit, path);
    }
    free(path);
    return rc;
}

/* Both or none; refused while there is a mutex. */
static int replace_base(const struct simba__zk_visit *visit)
{
    zoo_op_t ops[2];
    zoo_op_result_t results[2];

    zoo_delete_op_init(&ops[0], base_of(visit), -1);
    zoo_create_op_init(&ops[1], base_of(visit), "", 0,
                       simba__zk_acl(visit->self), ZOO_PERSISTENT, NULL, 0);
    return zoo_multi(visit->plain.handle, 2, ops, results);
}

/* The servers do not tell a container from a plain node, so one that was there
 * is replaced to be sure. */
static int ensure_base(const struct simba__zk_visit *visit, simba_error *error)
{
    int rc = make_base(visit);

    if (rc == ZNODEEXISTS && visit->request->upgrade) {
        rc = replace_base(visit);
    }
    if (rc == ZOK) {
        simba_request_add_finding(visit->request, SIMBA_FINDING_OK, "base",
                                  "%.200s was made, and stays", base_of(visit));
    } else if (rc == ZNODEEXISTS) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_OK, "base",
            "%.200s is there; if it was made by use, the "
            "servers remove it when there is no mutex, and "
            "an upgrade makes it stay",
            base_of(visit));
    } else if (rc == ZNOTEMPTY) {
        simba_request_add_finding(
            visit->request, SIMBA_FINDING_WEAK, "base",
            "%.200s has mutexes: it can be made to stay when "
            "there is none",
            base_of(visit));
    } else {
        return simba__zk_fail(visit->self, rc, error);
    }
    return SIMBA_OK;
}

/* --- who may do what ----------------------------------------------------- */

static int perms_of_anyone(const struct ACL_vector *acl)
{
    int perms = 0;

    for (int i = 0; i < acl->count; i++) {
        if (strcmp(acl->data[i].id.scheme, "world") == 0) {
            perms |= acl->data[i].perms;
        }
    }
    return perms;
}

static bool is_as_wished(const struct simba__zk_visit *visit,
                         const struct ACL_vector *acl)
{
    static const int wished[] = {[SIMBA__ZK_ACL_OPEN] = PERMS_ALL,
                                 [SIMBA__ZK_ACL_CREATOR] = 0,
                                 [SIMBA__ZK_ACL_SHARED] = PERMS_READ};

    return perms_of_anyone(acl) == wished[visit->self->settings.acl];
}

static int ensure_acl(const struct simba__zk_visit *visit, simba_error *error)
{
    struct ACL_vector acl = {0, NULL};
    struct Stat stat;
    int rc = zoo_get_acl(visit->plain.handle, base_of(visit), &acl, &stat);
    bool is_right = rc == ZOK && is_as_wished(visit, &acl);

    if (rc == ZOK) {
        deallocate_ACL_vector(&acl);
    }
    if (rc == ZOK && !is_right && visit->request->upgrade) {
        rc = zoo_set_acl(visit->plain.handle, base_of(visit), -1,
                         simba__zk_acl(visit->self));
        is_right = rc == ZOK;
    }
    if (rc != ZOK) {
        return simba__zk_fail(visit->self, rc, error);
    }
    simba_request_add_finding(
        visit->request, is_right ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK, "acl",
        is_right ? "%.200s is open to whom the URL says"
                 : "%.200s is open to others than the URL "
                   "says; an upgrade changes that",
        base_of(visit));
    return SIMBA_OK;
}

int simba__zk_init(struct simba__zk_visit *visit, simba_error *error)
{
    int status = ensure_base(visit, error);

    return status == SIMBA_OK ? ensure_acl(visit, error) : status;
}

/* What init does, as commands for the servers' own shell, zkCli.sh. */

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
