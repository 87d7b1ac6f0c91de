# The etcd store: gRPC by nghttp2, TLS by OpenSSL.
set(SIMBA_NGHTTP2 libnghttp2 CACHE STRING "What pkg-config calls nghttp2")
mark_as_advanced(SIMBA_NGHTTP2)
pkg_check_modules(nghttp2 IMPORTED_TARGET ${SIMBA_NGHTTP2})

simba_want_store(etcd simba_has_etcd "libnghttp2-dev libssl-dev"
                 nghttp2_FOUND openssl_FOUND)
if(simba_has_etcd)
  set(simba_etcd_sources ${simba_src}/kit/tls.c ${simba_src}/kit/servers.c
      ${simba_src}/kit/session_admin.c)
  foreach(name IN ITEMS acquire admin crowd etcd grpc hand_over protobuf
                        queue settings txn watches)
    list(APPEND simba_etcd_sources ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  endforeach()
  simba_add_store(etcd SOURCES ${simba_etcd_sources}
                  LINK PkgConfig::nghttp2)
endif()
