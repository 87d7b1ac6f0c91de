# The ZooKeeper store: its own protocol, TLS by OpenSSL.
simba_want_store(zookeeper simba_has_zookeeper libssl-dev openssl_FOUND)
if(simba_has_zookeeper)
  set(simba_zookeeper_sources ${simba_src}/kit/tls.c
      ${simba_src}/kit/servers.c
      ${simba_src}/kit/session_admin.c)
  foreach(name IN ITEMS admin doctor init messages node_names notify request
                        session settings step zookeeper)
    list(APPEND simba_zookeeper_sources ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  endforeach()
  simba_add_store(zookeeper SOURCES ${simba_zookeeper_sources}
                  LINK PkgConfig::openssl)
endif()
