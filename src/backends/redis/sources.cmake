# The Redis store: its sources, and its Lua scripts as a header of texts.

pkg_check_modules(hiredis IMPORTED_TARGET hiredis)

set(simba_redis_dir ${CMAKE_CURRENT_LIST_DIR})
set(simba_redis_include_dir ${CMAKE_BINARY_DIR}/generated)

set(simba_redis_sources)
foreach(name IN ITEMS admin cluster connection doctor handshake limits
                      liveness look notify redis reply request scripts sentinel
                      server settings)
  list(APPEND simba_redis_sources ${simba_redis_dir}/${name}.c)
endforeach()
list(APPEND simba_redis_sources ${simba_src}/kit/tls.c)

simba_want_store(redis simba_has_redis "libhiredis-dev libssl-dev"
                 hiredis_FOUND openssl_FOUND)
if(simba_has_redis)
  simba_embed_sections(
    ${simba_redis_include_dir}/backends/redis/scripts_lua.h
    ${simba_redis_dir}/scripts.lua SIMBA__REDIS_LUA_ "--")
  simba_embed_sections(
    ${simba_redis_include_dir}/backends/redis/crowd_lua.h
    ${simba_redis_dir}/crowd.lua SIMBA__REDIS_LUA_ "--")
  simba_embed_sections(
    ${simba_redis_include_dir}/backends/redis/look_lua.h
    ${simba_redis_dir}/look.lua SIMBA__REDIS_LUA_ "--")
  simba_add_store(redis SOURCES ${simba_redis_sources}
                  LINK PkgConfig::hiredis)
endif()
