# The stores on SQL servers, one module each, built when the client library is
# there.
include(${PROJECT_SOURCE_DIR}/cmake/SimbaEmbed.cmake)
include(${PROJECT_SOURCE_DIR}/cmake/SimbaSql.cmake)
set(simba_sql_dir ${CMAKE_CURRENT_LIST_DIR})

set(simba_sql_sources
  ${simba_sql_dir}/admin.c
  ${simba_sql_dir}/connection.c
  ${simba_sql_dir}/heartbeat.c
  ${simba_sql_dir}/notify.c
  ${simba_sql_dir}/record.c
  ${simba_sql_dir}/request.c
  ${simba_sql_dir}/sql.c
  ${simba_sql_dir}/waiters.c
)

# simba_<name>: its objects; simba_module_<name>: simba-<name>.so. What it needs
# of the library itself is found in the program that loads it.
function(simba_add_sql_store name library)
  simba_add_layer(simba_${name} ${simba_sql_sources} ${ARGN})
  target_include_directories(simba_${name} PRIVATE
                             ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(simba_${name} PRIVATE PkgConfig::${library})
  add_library(simba_module_${name} MODULE
    $<TARGET_OBJECTS:simba_${name}> $<TARGET_OBJECTS:simba_mutex_record>
    $<TARGET_OBJECTS:simba_core> $<TARGET_OBJECTS:simba_util> $<TARGET_OBJECTS:simba_kit>)
  set_target_properties(simba_module_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME simba-${name} LINKER_LANGUAGE C)
  target_link_libraries(simba_module_${name} PRIVATE
    simba_instrument PkgConfig::${library})
  install(TARGETS simba_module_${name}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/simba)
endfunction()

pkg_check_modules(libpq IMPORTED_TARGET libpq)
if(libpq_FOUND)
  set(simba_postgres_dir ${simba_sql_dir}/../postgres)
  foreach(file IN ITEMS schema statements)
    simba_embed_sections(
      ${CMAKE_BINARY_DIR}/generated/backends/postgres/${file}.h
      ${simba_postgres_dir}/${file}.sql SIMBA__PG_ "--")
  endforeach()
  simba_add_sql_store(postgres libpq
    ${simba_postgres_dir}/connection.c
    ${simba_postgres_dir}/errors.c
    ${simba_postgres_dir}/notify.c
    ${simba_postgres_dir}/postgres.c
    ${simba_postgres_dir}/settings.c)
endif()

pkg_check_modules(libmariadb IMPORTED_TARGET libmariadb)
if(libmariadb_FOUND)
  set(simba_mysql_dir ${simba_sql_dir}/../mysql)
  foreach(file IN ITEMS schema statements)
    simba_embed_sections(
      ${CMAKE_BINARY_DIR}/generated/backends/mysql/${file}.h
      ${simba_mysql_dir}/${file}.sql SIMBA__MY_ "--")
  endforeach()
  simba_add_sql_store(mysql libmariadb
    ${simba_mysql_dir}/connection.c
    ${simba_mysql_dir}/errors.c
    ${simba_mysql_dir}/mysql.c
    ${simba_mysql_dir}/notify.c
    ${simba_mysql_dir}/settings.c
    ${simba_mysql_dir}/statements.c)
endif()
