/* The ZooKeeper store: the table that its module offers. */
#ifndef SIMBA_ZOOKEEPER_ZOOKEEPER_H
#define SIMBA_ZOOKEEPER_ZOOKEEPER_H

#include <simba/backend.h>

/* Under the name that the registry looks for. */
SIMBA_API extern const simba_backend_ops simba__zookeeper_ops __asm__(
    "simba_backend_ops");

#endif
