# Stores that are modules of their own: which of them are built, and how.
#
# SIMBA_BACKENDS is "auto" (all whose client library is here), or a list of names.
# SQLite and memory are always built, named or not; "" means these alone.
set(simba_known_stores redis postgres mysql zookeeper etcd)
set(SIMBA_BACKENDS auto CACHE STRING
    "Stores to build: auto, or a list of ${simba_known_stores}")

if(NOT SIMBA_BACKENDS STREQUAL "auto")
  foreach(name IN LISTS SIMBA_BACKENDS)
    if(NOT name IN_LIST simba_known_stores AND
       NOT name MATCHES "^(memory|sqlite)$")
      message(FATAL_ERROR "SIMBA_BACKENDS: there is no store '${name}'; the list "
                          "may have ${simba_known_stores}, or be 'auto'; memory and "
                          "sqlite are always built")
    endif()
  endforeach()
endif()

# simba_want_store(NAME OUT PACKAGES FOUND...): shall the store be built? FOUND
# are the names of variables that are true when a part of its client library was
# found; PACKAGES is what Debian calls them. Says what is missing.
function(simba_want_store name out packages)
  set(${out} FALSE PARENT_SCOPE)
  if(NOT SIMBA_BACKENDS STREQUAL "auto" AND NOT name IN_LIST SIMBA_BACKENDS)
    message(STATUS "simba: store ${name}: left out, SIMBA_BACKENDS does not "
                   "name it")
    return()
  endif()
  foreach(found IN LISTS ARGN)
    if(NOT ${found})
      set(what "client library not found (Debian: ${packages})")
      if(SIMBA_BACKENDS STREQUAL "auto")
        message(STATUS "simba: store ${name}: left out, ${what}")
        return()
      endif()
      message(FATAL_ERROR "SIMBA_BACKENDS asks for ${name}: ${what}")
    endif()
  endforeach()
  message(STATUS "simba: store ${name}: yes")
  set(${out} TRUE PARENT_SCOPE)
endfunction()

# simba_add_store(NAME SOURCES... LINK LIBRARY...): its objects, simba_NAME, and
# its module, simba-NAME.so. What a module needs of the library itself it finds in
# the program that loads it.
function(simba_add_store name)
  cmake_parse_arguments(PARSE_ARGV 1 store "" "" "SOURCES;LINK")
  simba_add_layer(simba_${name} ${store_SOURCES})
  target_include_directories(simba_${name} PRIVATE
                             ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(simba_${name} PRIVATE ${store_LINK})
  add_library(simba_module_${name} MODULE $<TARGET_OBJECTS:simba_${name}>)
  foreach(layer IN ITEMS core mutex_record kit util)
    target_sources(simba_module_${name} PRIVATE $<TARGET_OBJECTS:simba_${layer}>)
  endforeach()
  set_target_properties(simba_module_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME simba-${name} LINKER_LANGUAGE C)
  target_link_libraries(simba_module_${name} PRIVATE
    simba_instrument ${store_LINK} Threads::Threads)
  # Every library costs a quarter of a millisecond in each command.
  target_link_options(simba_module_${name} PRIVATE LINKER:--as-needed)
  install(TARGETS simba_module_${name}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simba)
endfunction()

# TLS, for the stores that have none by their client library: see src/kit/tls.h.
pkg_check_modules(openssl IMPORTED_TARGET openssl)
if(openssl_FOUND)
  simba_add_layer(simba_tls ${simba_src}/kit/tls_openssl.c)
  target_link_libraries(simba_tls PUBLIC PkgConfig::openssl)
  add_library(simba_module_tls MODULE $<TARGET_OBJECTS:simba_tls>)
  set_target_properties(simba_module_tls PROPERTIES
    PREFIX "" OUTPUT_NAME simba_tls LINKER_LANGUAGE C)
  target_link_libraries(simba_module_tls PRIVATE
    simba_instrument PkgConfig::openssl)
  install(TARGETS simba_module_tls
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simba)
endif()
