/* What the URL of a ZooKeeper store says:
 *
 *   zookeeper://[user[:password]@]host[:port][,host[:port]...][/chroot]
 *               [?acl=open|creator|shared][&password_file=path][&tls=off] */
#ifndef SIMBA_ZOOKEEPER_SETTINGS_H
#define SIMBA_ZOOKEEPER_SETTINGS_H

#include "kit/url.h"

/* Who may do what with the nodes we make. */
enum simba__zk_acl {
    SIMBA__ZK_ACL_OPEN,    /* anybody everything, as Curator's */
    SIMBA__ZK_ACL_CREATOR, /* only who has our name and password */
    SIMBA__ZK_ACL_SHARED   /* the same, but anybody may read */
};

struct simba__zk_settings {
    struct simba__url url;
    char *hosts; /* host:port,host:port: as the client library wants it */
    const char *chroot; /* "" or "/a/b" */
    char *base;         /* where the mutexes are: chroot and "/simba" */
    char *auth;         /* "user:password", or NULL */
    int acl;            /* enum simba__zk_acl */
    int tls;            /* 0: none */
};

int simba__zk_settings_init(struct simba__zk_settings *settings,
                            const char *rest,
                            simba_error *error);

/** Free what it holds; copes with a half-read one. */
void simba__zk_settings_fini(struct simba__zk_settings *settings);

#endif
