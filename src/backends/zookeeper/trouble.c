/* What goes wrong, in words; and who may do what. */
#include "backends/zookeeper/instance.h"

#include <stdarg.h>
#include <stdio.h>

void simba__zk_log(const struct simba__zk *self,
                   enum simba_log_level level,
                   const char *format,
                   ...)
{
    char message[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    self->log(self->log_user, level, "zookeeper", message);
}

bool simba__zk_is_lost(int rc)
{
    switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZINVALIDSTATE:
    case ZCLOSING:
        return true;
    default:
        return false;
    }
}

static int status_of(int rc)
{
    if (simba__zk_is_lost(rc)) {
        return SIMBA_EUNKNOWN;
    }
    switch (rc) {
    case ZNOAUTH:
    case ZAUTHFAILED:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        return SIMBA_EDENIED;
    case ZBADARGUMENTS:
        return SIMBA_EINVAL;
    case ZTHROTTLEDOP:
        return SIMBA_EUNAVAIL;
    case ZSYSTEMERROR:
        return SIMBA_ENOMEM;
    case ZMARSHALLINGERROR:
    case ZRUNTIMEINCONSISTENCY:
    case ZDATAINCONSISTENCY:
        return SIMBA_EINTERNAL;
    default: /* NONODE again and again, bad ACLs, a read-only server */
        return SIMBA_EMISCONFIG;
    }
}

int simba__zk_fail(const struct simba__zk *self, int rc, simba_error *error)
{
    return simba_error_set(error, status_of(rc), rc, "zookeeper %.120s: %s",
                           self->settings.hosts, zerror(rc));
}

int simba__zk_unanswered(const struct simba__zk *self, simba_error *error)
{
    if (self->is_connected) {
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "zookeeper %.120s: no answer in time",
                               self->settings.hosts);
    }
    return simba_error_set(error, self->trouble.code, self->trouble.native,
                           "zookeeper %.120s: %s", self->settings.hosts,
                           self->trouble.message);
}

const struct ACL_vector *simba__zk_acl(const struct simba__zk *self)
{
    static char auth[] = "auth", nobody[] = "", world[] = "world",
                anyone[] = "anyone";
    static struct ACL shared_list[] = {{0x1f, {auth, nobody}},
                                       {0x01, {world, anyone}}};
    static const struct ACL_vector shared = {2, shared_list};

    switch (self->settings.acl) {
    case SIMBA__ZK_ACL_CREATOR:
        return &ZOO_CREATOR_ALL_ACL;
    case SIMBA__ZK_ACL_SHARED:
        return &shared;
    case SIMBA__ZK_ACL_OPEN:
        break;
    }
    return &ZOO_OPEN_ACL_UNSAFE;
}
