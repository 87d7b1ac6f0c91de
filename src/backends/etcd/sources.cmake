# The way to etcd: its messages, and gRPC by nghttp2.
pkg_check_modules(nghttp2 IMPORTED_TARGET libnghttp2)

if(nghttp2_FOUND)
  simba_add_layer(simba_etcd ${CMAKE_CURRENT_LIST_DIR}/grpc.c
                             ${CMAKE_CURRENT_LIST_DIR}/messages.c)
  target_link_libraries(simba_etcd PUBLIC PkgConfig::nghttp2)
endif()
