# The Redis store, a module of its own, built when its libraries are there: its
# sources, and its Lua scripts as a header of texts.
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
  ${simba_redis_dir}/hash.c
  ${simba_redis_dir}/notify.c
  ${simba_redis_dir}/redis.c
  ${simba_redis_dir}/reply.c
  ${simba_redis_dir}/request.c
  ${simba_redis_dir}/scripts.c
  ${simba_redis_dir}/secret.c
  ${simba_redis_dir}/sentinel.c
  ${simba_redis_dir}/server.c
  ${simba_redis_dir}/settings.c
  ${simba_redis_dir}/text.c
  ${simba_redis_dir}/tls.c
)

# One text each, simba__redis_lua_<name>, without the comments: line.lua, which
# all of them begin with, then their own. As numbers, for C promises no string
# literals of that length.
function(simba_embed_lua header)
  set(text "/* Made from the .lua files of the sources. */\n")
  set(common ${simba_redis_dir}/lua/line.lua)
  foreach(name IN LISTS ARGN)
    set(own ${simba_redis_dir}/lua/${name}.lua)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                 ${common} ${own})
    file(READ ${common} lua)
    file(READ ${own} more)
    string(APPEND lua "${more}")
    string(REGEX REPLACE "(^|\n) *--[^\n]*" "\\1" lua "${lua}")
    string(REGEX REPLACE " *-- [^\n]*" "" lua "${lua}")
    string(REGEX REPLACE "\n[ \n]*" "\n" lua "${lua}")
    string(HEX "${lua}" hex)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(APPEND text "static const char simba__redis_lua_${name}[] = {"
                       "${bytes}0};\n")
  endforeach()
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}" @ONLY)
endfunction()

if(hiredis_FOUND AND openssl_FOUND)
  simba_embed_lua(${simba_redis_include_dir}/backends/redis/lua.h
                  acquire break doctor read release renew)
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
