# The ZooKeeper store.
#
#   simba_zookeeper         its objects
#   simba_zookeeper_client  what they need: the client library, as an archive
#                           if there is one, so that the descriptors it opens
#                           are ours (client.c)
find_path(SIMBA_ZOOKEEPER_INCLUDE zookeeper/zookeeper.h)
find_library(SIMBA_ZOOKEEPER_ARCHIVE libzookeeper_mt.a)
find_library(SIMBA_ZOOKEEPER_LIBRARY zookeeper_mt)

simba_want_store(zookeeper simba_has_zookeeper libzookeeper-mt-dev
                 SIMBA_ZOOKEEPER_INCLUDE SIMBA_ZOOKEEPER_LIBRARY)
if(simba_has_zookeeper)
  set(simba_zookeeper_dir ${CMAKE_CURRENT_LIST_DIR})
  set(simba_zookeeper_sources)
  foreach(name IN ITEMS admin client connection doctor init latch_io
                        mutex_nodes node_names notify request session settings
                        zookeeper)
    list(APPEND simba_zookeeper_sources ${simba_zookeeper_dir}/${name}.c)
  endforeach()
  add_library(simba_zookeeper_client INTERFACE)
  target_include_directories(simba_zookeeper_client SYSTEM INTERFACE
                             ${SIMBA_ZOOKEEPER_INCLUDE})
  if(SIMBA_ZOOKEEPER_ARCHIVE)
    target_link_libraries(simba_zookeeper_client INTERFACE
                          ${SIMBA_ZOOKEEPER_ARCHIVE} m)
  else()
    target_link_libraries(simba_zookeeper_client INTERFACE
                          ${SIMBA_ZOOKEEPER_LIBRARY})
  endif()
  target_link_options(simba_zookeeper_client INTERFACE
    -Wl,--wrap=socket,--wrap=pipe,--wrap=close,--wrap=recv
    -Wl,--wrap=send,--wrap=getaddrinfo)
  target_link_libraries(simba_zookeeper_client INTERFACE Threads::Threads)

  simba_add_store(zookeeper SOURCES ${simba_zookeeper_sources}
                  LINK simba_zookeeper_client)
  target_link_options(simba_module_zookeeper PRIVATE -Wl,--exclude-libs,ALL)
endif()
