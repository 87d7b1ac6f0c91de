# The library's targets, layer by layer, each source file named.
set(simba_src ${PROJECT_SOURCE_DIR}/src)

# A layer is a set of objects that sees the public headers as <simba/x.h> and
# the internal ones as "core/x.h".
function(simba_add_layer name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                            ${simba_src})
  target_link_libraries(${name} PUBLIC simba_instrument PRIVATE simba_warnings)

  if(SIMBA_COVERAGE)
    # An assert has a branch that only a bug can take, so no test ever will.
    # Left out here, rather than filtered by the look of a line, which misses
    # conditions that span lines; every other build keeps them.
    target_compile_definitions(${name} PRIVATE NDEBUG)
    # A variable may serve an assert only.
    target_compile_options(${name} PRIVATE -Wno-unused)
  endif()
endfunction()

# What has no policy. Its names are not exported: modules take its objects along,
# programs link simba_util_archive.
simba_add_layer(simba_util
  ${simba_src}/util/file.c
  ${simba_src}/util/guess.c
  ${simba_src}/util/hash.c
  ${simba_src}/util/json.c
  ${simba_src}/util/text.c
)
add_library(simba_util_archive STATIC $<TARGET_OBJECTS:simba_util>)
set_target_properties(simba_util_archive PROPERTIES LINKER_LANGUAGE C)
target_include_directories(simba_util_archive INTERFACE ${simba_src})

# What the stores share; modules take it along, too.
simba_add_layer(simba_kit
  ${simba_src}/kit/backoff.c
  ${simba_src}/kit/deadline.c
  ${simba_src}/kit/log.c
  ${simba_src}/kit/lookup.c
  ${simba_src}/kit/parameters.c
  ${simba_src}/kit/secret.c
  ${simba_src}/kit/url.c
)

# The part of the kit that is public, for authors of stores (include/simba/sys).
# The library exports it: modules find it in the program that loads them.
simba_add_layer(simba_sys
  ${simba_src}/kit/caller_thread.c
  ${simba_src}/kit/connection.c
  ${simba_src}/kit/connection_bytes.c
  ${simba_src}/kit/exchange.c
  ${simba_src}/kit/mutex_value.c
  ${simba_src}/kit/session_store.c
  ${simba_src}/kit/session_entries.c
  ${simba_src}/kit/session_open.c
  ${simba_src}/kit/certainty.c
  ${simba_src}/kit/crowd.c
  ${simba_src}/kit/sighting.c
)

simba_add_layer(simba_core
  ${simba_src}/core/contend.c
  ${simba_src}/core/contend_config.c
  ${simba_src}/core/lease.c
  ${simba_src}/core/mutex_model.c
  ${simba_src}/core/name.c
  ${simba_src}/core/observe.c
  ${simba_src}/core/owner.c
  ${simba_src}/core/period.c
  ${simba_src}/core/rng.c
  ${simba_src}/core/schedule.c
  ${simba_src}/core/spin.c
  ${simba_src}/core/state.c
  ${simba_src}/core/told.c
  ${simba_src}/core/window.c
)

simba_add_layer(simba_mutex_record
  ${simba_src}/core/mutex_record.c
)

include(SimbaEmbed)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)

simba_add_layer(simba_runtime
  ${simba_src}/runtime/request.c
  ${simba_src}/runtime/contention.c
  ${simba_src}/runtime/looks.c
  ${simba_src}/runtime/fork.c
  ${simba_src}/runtime/subscribers.c
  ${simba_src}/runtime/loop.c
  ${simba_src}/runtime/metrics.c
  ${simba_src}/runtime/poll.c
  ${simba_src}/runtime/callback_pool.c
  ${simba_src}/runtime/worker.c
)
# Which loop a thread is inside is asked twenty times for one mutex. Three
# pointers fit into the room that is kept for programs that load us later.
target_compile_options(simba_runtime PRIVATE -ftls-model=initial-exec)

simba_add_layer(simba_memory
  ${simba_src}/backends/memory/memory.c
)

include(${simba_src}/backends/sqlite/sources.cmake)
simba_add_layer(simba_sqlite ${simba_sqlite_sources})
target_include_directories(simba_sqlite PRIVATE ${simba_sqlite_include_dir})
target_link_libraries(simba_sqlite PRIVATE PkgConfig::sqlite3)

simba_add_layer(simba_shims
  ${simba_src}/shims/fault.c
  ${simba_src}/shims/shim.c
  ${simba_src}/shims/stat.c
  ${simba_src}/shims/trace.c
)

simba_add_layer(simba_api
  ${simba_src}/api/admin.c
  ${simba_src}/api/ask.c
  ${simba_src}/api/config_file.c
  ${simba_src}/api/contender.c
  ${simba_src}/api/duration.c
  ${simba_src}/api/error.c
  ${simba_src}/api/guard.c
  ${simba_src}/api/locker.c
  ${simba_src}/api/metrics.c
  ${simba_src}/api/modules.c
  ${simba_src}/api/multi_locker.c
  ${simba_src}/api/probe.c
  ${simba_src}/api/retrieval.c
  ${simba_src}/api/scheduler.c
  ${simba_src}/api/service.c
  ${simba_src}/api/tell.c
  ${simba_src}/api/settings.c
  ${simba_src}/api/store.c
)

target_compile_definitions(simba_api PRIVATE
  SIMBA_MODULE_DIR="${CMAKE_INSTALL_FULL_LIBDIR}/simba")

set(simba_layers simba_util simba_kit simba_core simba_mutex_record
                 simba_memory simba_sqlite simba_shims simba_runtime
                 simba_sys simba_api)
set(simba_objects)
foreach(layer IN LISTS simba_layers)
  list(APPEND simba_objects $<TARGET_OBJECTS:${layer}>)
endforeach()

add_library(simba SHARED ${simba_objects})
set(simba_map ${simba_src}/simba.map)
set_target_properties(simba PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 1
                                       LINK_DEPENDS ${simba_map})
target_link_options(simba PRIVATE LINKER:--version-script=${simba_map})

add_library(simba_static STATIC ${simba_objects})
set_target_properties(simba_static PROPERTIES OUTPUT_NAME simba)

# What the command line tool is made of: each shared library costs it a quarter
# of a millisecond at every start (docs/architecture.md).
find_library(SIMBA_SQLITE3_ARCHIVE libsqlite3.a)
add_library(simba_embedded INTERFACE)
if(SIMBA_SQLITE3_ARCHIVE)
  set(simba_whole_objects ${simba_objects})
  list(REMOVE_ITEM simba_whole_objects $<TARGET_OBJECTS:simba_util>)
  add_library(simba_whole STATIC ${simba_whole_objects})
  set_target_properties(simba_whole PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(simba_whole PUBLIC simba_util_archive)
  # All of it, and offered to modules: they look for it in the program.
  target_link_libraries(simba_embedded INTERFACE
    -Wl,--whole-archive simba_whole -Wl,--no-whole-archive
    ${SIMBA_SQLITE3_ARCHIVE} -Wl,--as-needed m -Wl,--no-as-needed
    Threads::Threads
    ${CMAKE_DL_LIBS})
  target_include_directories(simba_embedded INTERFACE
                             ${PROJECT_SOURCE_DIR}/include)
else()
  target_link_libraries(simba_embedded INTERFACE simba simba_util_archive)
endif()

foreach(library IN ITEMS simba simba_static)
  add_library(simba::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(${library} PRIVATE
    $<BUILD_INTERFACE:simba_instrument> PkgConfig::sqlite3
    Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

# A program of the build finds the modules as an installed one does.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
file(CREATE_LINK .. ${PROJECT_BINARY_DIR}/lib/simba SYMBOLIC)
include(SimbaStore)
include(${simba_src}/backends/redis/sources.cmake)
include(${simba_src}/backends/sql/modules.cmake)
include(${simba_src}/backends/zookeeper/sources.cmake)
include(${simba_src}/backends/etcd/sources.cmake)
