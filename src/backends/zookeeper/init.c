/* What the store needs: its base, /simba under the chroot. Whoever contends
 * makes it as a container, which the servers remove when nobody uses it. An
 * admin whose programs may not make nodes there makes one that stays; by
 * requests, or by typing commands into the servers' own shell, zkCli.sh. */
#define _GNU_SOURCE
#include "backends/zookeeper/zookeeper.h"

#include "util/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PERMS_READ = 0x01, PERMS_ALL = 0x1f };

/* --- by requests --------------------------------------------------------- */

typedef simba__zk_admin admin_t;

/* Steps. */
enum { MAKE, REPLACE, CHANGE };

/* OK: it was made, NODE_EXISTS: it was there. The servers look first whether we
 * may make a node, and then whether it is there; the first that is missing
 * tells. */
static int made(const simba__zk_batch *batch)
{
    int rc = SIMBA__ZK_OK;

    for (int i = 0; i + 1 < batch->count &&
                    (rc == SIMBA__ZK_OK || rc == SIMBA__ZK_NODE_EXISTS);
         i += 2) {
        const simba__zk_reply *reply = &batch->replies[i];

        rc = reply[0].rc == SIMBA__ZK_NO_AUTH && reply[1].rc == SIMBA__ZK_OK
                 ? SIMBA__ZK_NODE_EXISTS
                 : reply[0].rc;
    }
    return rc;
}

/* The same, or what came of the replacing, if it was asked for. */
static int replaced(const admin_t *admin)
{
    const simba__zk_batch *batch = &admin->batches[REPLACE];

    return batch->count > 1 ? batch->replies[0].rc
                            : made(&admin->batches[MAKE]);
}

static void tell(admin_t *admin, bool is_right)
{
    const char *base = admin->self->settings.base;
    int rc = replaced(admin);

    simba_request_add_finding(
        admin->base.request,
        rc == SIMBA__ZK_NOT_EMPTY ? SIMBA_FINDING_WEAK : SIMBA_FINDING_OK,
        "base", "%.200s %s", base,
        rc == SIMBA__ZK_OK ? "was made, and stays"
        : rc == SIMBA__ZK_NODE_EXISTS
            ? "is there; if it was made by use, the servers remove it when "
              "there is no mutex, and an upgrade makes it stay"
            : "has mutexes: it can be made to stay when there is none");
    simba_request_add_finding(
        admin->base.request, is_right ? SIMBA_FINDING_OK : SIMBA_FINDING_WEAK,
        "acl", "%.200s is open to %s", base,
        is_right ? "whom the URL says"
                 : "others than the URL says; an upgrade changes that");
    simba__zk_admin_finish(admin, SIMBA__ZK_OK);
}

static void take_changed(admin_t *admin)
{
    int rc = admin->batches[CHANGE].replies[0].rc;

    if (rc == SIMBA__ZK_OK) {
        tell(admin, true);
    } else {
        simba__zk_admin_finish(admin, rc);
    }
}

/* Of the replacing, if it was asked for, then the ACL. */
static void take_replaced(admin_t *admin)
{
    static const int wished[] = {[SIMBA__ZK_ACL_OPEN] = PERMS_ALL,
                                 [SIMBA__ZK_ACL_CREATOR] = 0,
                                 [SIMBA__ZK_ACL_SHARED] = PERMS_READ};
    simba__zk_batch *batch = &admin->batches[REPLACE];
    const simba__zk_reply *acl = &batch->replies[batch->count - 1];
    int rc = replaced(admin);
    bool is_right = acl->perms == wished[admin->self->settings.acl];

    if (rc != SIMBA__ZK_OK && rc != SIMBA__ZK_NODE_EXISTS &&
        rc != SIMBA__ZK_NOT_EMPTY) {
        simba__zk_admin_finish(admin, rc);
    } else if (acl->rc != SIMBA__ZK_OK) {
        simba__zk_admin_finish(admin, acl->rc);
    } else if (is_right || !admin->base.request->upgrade) {
        tell(admin, is_right);
    } else {
        batch = simba__zk_admin_begin(admin, CHANGE);
        simba__zk_ask(batch, SIMBA__ZK_SET_ACL, NULL, NULL);
        simba__zk_admin_send(admin, batch, take_changed);
    }
}

/* The servers do not tell a container from a plain node, so one that was there
 * is replaced to be sure: both or none, and not while there is a mutex. */
static void take_made(admin_t *admin)
{
    simba__zk_batch *batch = simba__zk_admin_begin(admin, REPLACE);
    int rc = made(&admin->batches[MAKE]);

    if (rc != SIMBA__ZK_OK && rc != SIMBA__ZK_NODE_EXISTS) {
        simba__zk_admin_finish(admin, rc);
        return;
    }
    if (rc == SIMBA__ZK_NODE_EXISTS && admin->base.request->upgrade) {
        simba__zk_multi_begin(batch);
        simba__zk_ask(batch, SIMBA__ZK_DELETE, NULL, NULL);
        simba__zk_ask(batch, SIMBA__ZK_CREATE, NULL, NULL);
        simba__zk_multi_end(batch);
    }
    simba__zk_ask(batch, SIMBA__ZK_GET_ACL, NULL, NULL);
    simba__zk_admin_send(admin, batch, take_replaced);
}

/* Makes the base and what is missing above it, as nodes that stay. */
void simba__zk_init(admin_t *admin)
{
    simba__zk_batch *batch = simba__zk_admin_begin(admin, MAKE);

    simba__zk_ask_parents(batch, NULL, true);
    simba__zk_admin_send(admin, batch, take_made);
}

/* --- as commands --------------------------------------------------------- */

/* A command about a path, of which this is the beginning, and what follows it
 * of data and ACL. As the shell takes it: a word may hold the other kind of
 * quotes. The user stands for whoever gave the right password; that is not
 * told. */
static void put_command(struct simba__text *out,
                        const simba__zk_settings *settings,
                        const char *command,
                        size_t length)
{
    const char *base = settings->base, *user = settings->auth;
    char quote = memchr(base, '\'', length) == NULL ? '\'' : '"';

    simba__text_printf(out, "%s %c%.*s%c", command, quote, (int)length, base,
                       quote);
    if (strcmp(command, "create") == 0) {
        simba__text_put(out, " ''");
    }
    if (strcmp(command, "delete") == 0) {
        simba__text_put(out, "\n");
    } else if (settings->acl == SIMBA__ZK_ACL_OPEN) {
        simba__text_put(out, " world:anyone:cdrwa\n");
    } else {
        assert(user != NULL); /* other ACLs are refused without one */
        simba__text_printf(
            out, " auth:%.*s:cdrwa%s\n", (int)strcspn(user, ":"), user,
            settings->acl == SIMBA__ZK_ACL_SHARED ? ",world:anyone:r" : "");
    }
}

char *simba__zk_schema(const simba_backend_config *config,
                       bool upgrade,
                       simba_error *error)
{
    simba__zk_settings settings;
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
            put_command(&out, &settings, "delete", length);
        }
        while (!upgrade && (end = strchr(end + 1, '/')) != NULL) {
            put_command(&out, &settings, "create", (size_t)(end - base));
        }
        put_command(&out, &settings, "create", length);
        if (upgrade) {
            put_command(&out, &settings, "setAcl", length);
        }
        text = simba__text_take(&out);
        if (text == NULL) {
            simba_error_set(error, SIMBA_ENOMEM, 0, "zookeeper: no memory");
        }
    }
    simba__zk_settings_fini(&settings);
    return text;
}
