/* What the store needs: its base, /simba under the chroot. Whoever contends
 * makes it as a container, which the servers remove when nobody uses it. An
 * admin whose programs may not make nodes there makes one that stays; by calls,
 * or by typing commands into the servers' own shell, zkCli.sh. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>

enum { PERMS_READ = 0x01, PERMS_ALL = 0x1f };

/* --- by calls ------------------------------------------------------------ */

/* Makes the base and what is missing above it, as nodes that stay. ZOK: it was
 * made, ZNODEEXISTS: it was there. */
static int make_base(const struct simba__zk *self, zhandle_t *handle)
{
    char *path = strdup(self->settings.base), *end = path;
    int rc = path == NULL ? ZSYSTEMERROR : ZOK;

    while (end != NULL && (rc == ZOK || rc == ZNODEEXISTS)) {
        end = strchr(end + 1, '/');
        if (end != NULL) {
            *end = '\0';
        }
        rc = zoo_create(handle, path, "", 0, simba__zk_acl(self),
                        ZOO_PERSISTENT, NULL, 0);
        /* The servers look first whether we may make it, and then whether it is
         * there. */
        if (rc == ZNOAUTH && zoo_exists(handle, path, 0, NULL) == ZOK) {
            rc = ZNODEEXISTS;
        }
        if (end != NULL) {
            *end = '/';
        }
    }
    free(path);
    return rc;
}

int simba__zk_init(const struct simba__zk *self,
                   zhandle_t *handle,
                   simba_request *request,
                   simba_error *error)
{
    static const int wished[] = {[SIMBA__ZK_ACL_OPEN] = PERMS_ALL,
                                 [SIMBA__ZK_ACL_CREATOR] = 0,
                                 [SIMBA__ZK_ACL_SHARED] = PERMS_READ};
    const char *base = self->settings.base;
    int perms, rc = make_base(self, handle);
    bool is_right;

    /* The servers do not tell a container from a plain node, so one that was
     * there is replaced to be sure: both or none, and not while there is a
     * mutex. */
    if (rc == ZNODEEXISTS && request->upgrade) {
        zoo_op_t ops[2];
        zoo_op_result_t results[2];

        zoo_delete_op_init(&ops[0], base, -1);
        zoo_create_op_init(&ops[1], base, "", 0, simba__zk_acl(self),
                           ZOO_PERSISTENT, NULL, 0);
        rc = zoo_multi(handle, 2, ops, results);
    }
    if (rc == ZOK) {
        simba_request_add_finding(request, SIMBA_FINDING_OK, "base",
                                  "%.200s was made, and stays", base);
    } else if (rc == ZNODEEXISTS) {
        simba_request_add_finding(
            request, SIMBA_FINDING_OK, "base",
            "%.200s is there; if it was made by use, the servers remove it "
            "when there is no mutex, and an upgrade makes it stay",
            base);
    } else if (rc == ZNOTEMPTY) {
        simba_request_add_finding(
            request, SIMBA_FINDING_WEAK, "base",
            "%.200s has mutexes: it can be made to stay when there is none",
            base);
    } else {
        return simba__zk_fail(self, rc, error);
    }
    rc = simba__zk_perms_of_anyone(handle, base, &perms);
    is_right = perms == wished[self->settings.acl];
    if (rc == ZOK && !is_right && request->upgrade) {
        rc = zoo_set_acl(handle, base, -1, simba__zk_acl(self));
        is_right = true;
    }
    if (rc != ZOK) {
        return simba__zk_fail(self, rc, error);
    }
    simba_request_add_finding(
        request, is_right ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK, "acl",
        is_right ? "%.200s is open to whom the URL says"
                 : "%.200s is open to others than the URL says; an upgrade "
                   "changes that",
        base);
    return SIMBA_OK;
}

/* --- as commands --------------------------------------------------------- */

/* A command about a path, of which this is the beginning. As the shell takes
 * it: a word may hold the other kind of quotes. */
static void put_command(struct simba__text *out,
                        const char *command,
                        const char *path,
                        size_t length)
{
    char quote = memchr(path, '\'', length) == NULL ? '\'' : '"';

    simba__text_printf(out, "%s %c%.*s%c", command, quote, (int)length, path,
                       quote);
}

/* The user stands for whoever gave the right password; that is not told. */
static void put_acl(struct simba__text *out,
                    const struct simba__zk_settings *settings)
{
    const char *user = settings->auth == NULL ? "" : settings->auth;

    if (settings->acl == SIMBA__ZK_ACL_OPEN) {
        simba__text_put(out, " world:anyone:cdrwa\n");
    } else {
        simba__text_printf(
            out, " auth:%.*s:cdrwa%s\n", (int)strcspn(user, ":"), user,
            settings->acl == SIMBA__ZK_ACL_SHARED ? ",world:anyone:r" : "");
    }
}

static void put_create(struct simba__text *out,
                       const struct simba__zk_settings *settings,
                       size_t length)
{
    put_command(out, "create", settings->base, length);
    simba__text_put(out, " ''");
    put_acl(out, settings);
}

char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error)
{
    struct simba__zk_settings settings;
    struct simba__text out = {0};
    char *text = NULL;

    if (simba__zk_settings_init(&settings, config->rest, error) == SIMBA_OK) {
        const char *base = settings.base, *end = base;
        size_t length = strlen(base);

        if (settings.auth != NULL) {
            simba__text_printf(&out, "addauth digest %.*s:PASSWORD\n",
                               (int)strcspn(settings.auth, ":"), settings.auth);
        }
        if (upgrade) { /* of a base that is there, unless it has mutexes */
            put_command(&out, "delete", base, length);
            simba__text_put(&out, "\n");
            put_create(&out, &settings, length);
            put_command(&out, "setAcl", base, length);
            put_acl(&out, &settings);
        } else {
            while ((end = strchr(end + 1, '/')) != NULL) {
                put_create(&out, &settings, (size_t)(end - base));
            }
            put_create(&out, &settings, length);
        }
        text = simba__text_take(&out);
        if (text == NULL) {
            simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
        }
    }
    simba__zk_settings_fini(&settings);
    return text;
}
