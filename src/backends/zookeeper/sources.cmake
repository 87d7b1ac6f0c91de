# The ZooKeeper store, a module, built when the client library is there.
#
#   simba_zookeeper         its objects
#   simba_zookeeper_client  what they need: the client library, as an archive
#                           if there is one, so that the descriptors it opens
#                           are ours (client.c)
find_path(SIMBA_ZOOKEEPER_INCLUDE zookeeper/zookeeper.h)
find_library(SIMBA_ZOOKEEPER_ARCHIVE libzookeeper_mt.a)
find_library(SIMBA_ZOOKEEPER_LIBRARY zookeeper_mt)

if(SIMBA_ZOOKEEPER_INCLUDE AND SIMBA_ZOOKEEPER_LIBRARY)
  set(simba_zookeeper_dir ${CMAKE_CURRENT_LIST_DIR})
  set(simba_zookeeper_sources)
  foreach(name IN ITEMS admin client connection doctor init latch_io
                        mutex_nodes node_names notify request session settings
                        zookeeper)
    list(APPEND simba_zookeeper_sources ${simba_zookeeper_dir}/${name}.c)
  endforeach()
  simba_add_layer(simba_zookeeper ${simba_zookeeper_sources})

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
    -Wl,--wrap=socket,--wrap=pipe,--wrap=close,--wrap=send,--wrap=getaddrinfo)
  target_link_libraries(simba_zookeeper_client INTERFACE Threads::Threads)

  add_library(simba_module_zookeeper MODULE
              $<TARGET_OBJECTS:simba_zookeeper> $<TARGET_OBJECTS:simba_core>
    $<TARGET_OBJECTS:simba_util> $<TARGET_OBJECTS:simba_kit>)
  set_target_properties(simba_module_zookeeper PROPERTIES
    PREFIX "" OUTPUT_NAME simba-zookeeper LINKER_LANGUAGE C)
  target_link_libraries(simba_module_zookeeper PRIVATE simba_zookeeper_client
                                                       simba_instrument)
  target_link_options(simba_module_zookeeper PRIVATE -Wl,--exclude-libs,ALL)
  install(TARGETS simba_module_zookeeper
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simba)
endif()
