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

simba_add_layer(simba_core
  ${simba_src}/core/contend.c
  ${simba_src}/core/contend_leave.c
  ${simba_src}/core/contend_own.c
  ${simba_src}/core/contend_wait.c
  ${simba_src}/core/lease.c
  ${simba_src}/core/name.c
  ${simba_src}/core/owner.c
  ${simba_src}/core/period.c
  ${simba_src}/core/rng.c
  ${simba_src}/core/schedule.c
  ${simba_src}/core/state.c
)

simba_add_layer(simba_memory_row
  ${simba_src}/backends/memory/row.c
)

add_library(simba SHARED $<TARGET_OBJECTS:simba_core>)
set_target_properties(simba PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
target_link_libraries(simba PRIVATE simba_instrument)

add_library(simba_static STATIC $<TARGET_OBJECTS:simba_core>)
set_target_properties(simba_static PROPERTIES OUTPUT_NAME simba)

foreach(library IN ITEMS simba simba_static)
  add_library(simba::${library} ALIAS ${library})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
