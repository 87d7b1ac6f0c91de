# The Redis store, a module of its own, built when its libraries are there: its
# sources, and its Lua scripts as a header of texts.
include(${PROJECT_SOURCE_DIR}/cmake/SimbaEmbed.cmake)

pkg_check_modules(hiredis IMPORTED_TARGET hiredis)
pkg_check_modules(openssl IMPORTED_TARGET openssl)

set(simba_redis_dir ${CMAKE_CURRENT_LIST_DIR})
set(simba_redis_include_dir ${CMAKE_BINARY_DIR}/generated)

set(simba_redis_sources
  ${simba_redis_dir}/admin.c
  ${simba_redis_dir}/caller_io.c
  ${simba_redis_dir}/cluster.c
  ${simba_redis_dir}/connection.c
  ${simba_redis_dir}/doctor.c
  ${simba_redis_dir}/handshake.c
  ${simba_redis_dir}/notify.c
  ${simba_redis_dir}/redis.c
  ${simba_redis_dir}/reply.c
  ${simba_redis_dir}/request.c
  ${simba_redis_dir}/scripts.c
  ${simba_redis_dir}/sentinel.c
  ${simba_redis_dir}/server.c
  ${simba_redis_dir}/settings.c
  ${simba_redis_dir}/tls.c
)

if(hiredis_FOUND AND openssl_FOUND)
  simba_embed_sections(
    ${simba_redis_include_dir}/backends/redis/scripts_lua.h
    ${simba_redis_dir}/scripts.lua SIMBA__REDIS_LUA_ "--")
  simba_add_layer(simba_redis ${simba_redis_sources})
  target_include_directories(simba_redis PRIVATE ${simba_redis_include_dir})
  target_link_libraries(simba_redis PRIVATE PkgConfig::hiredis
                                            PkgConfig::openssl)

  # What it needs of the library itself is found in the program that loads it.
  add_library(simba_module_redis MODULE
    $<TARGET_OBJECTS:simba_redis> $<TARGET_OBJECTS:simba_core>
    $<TARGET_OBJECTS:simba_util> $<TARGET_OBJECTS:simba_kit>)
  set_target_properties(simba_module_redis PROPERTIES
    PREFIX "" OUTPUT_NAME simba-redis LINKER_LANGUAGE C)
  target_link_libraries(simba_module_redis PRIVATE
    simba_instrument PkgConfig::hiredis PkgConfig::openssl Threads::Threads)
  install(TARGETS simba_module_redis
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simba)
endif()
