# The stores on SQL servers: what they share, and their own.
set(simba_sql_dir ${CMAKE_CURRENT_LIST_DIR})

set(simba_sql_sources
  ${simba_sql_dir}/admin.c
  ${simba_sql_dir}/connection.c
  ${simba_sql_dir}/heartbeat.c
  ${simba_sql_dir}/jvm.c
  ${simba_sql_dir}/liveness.c
  ${simba_sql_dir}/notify.c
  ${simba_sql_dir}/offer.c
  ${simba_sql_dir}/record.c
  ${simba_sql_dir}/request.c
  ${simba_sql_dir}/slots.c
  ${simba_sql_dir}/sql.c
  ${simba_sql_dir}/waiters.c
)

pkg_check_modules(libpq IMPORTED_TARGET libpq)
simba_want_store(postgres simba_has_postgres libpq-dev libpq_FOUND)
if(simba_has_postgres)
  set(simba_postgres_dir ${simba_sql_dir}/../postgres)
  foreach(file IN ITEMS schema statements)
    simba_embed_sections(
      ${CMAKE_BINARY_DIR}/generated/backends/postgres/${file}.h
      ${simba_postgres_dir}/${file}.sql SIMBA__PG_ "--")
  endforeach()
  simba_add_store(postgres SOURCES ${simba_sql_sources}
    ${simba_postgres_dir}/connection.c
    ${simba_postgres_dir}/errors.c
    ${simba_postgres_dir}/notify.c
    ${simba_postgres_dir}/postgres.c
    ${simba_postgres_dir}/settings.c
    LINK PkgConfig::libpq)
endif()

pkg_check_modules(libmariadb IMPORTED_TARGET libmariadb)
simba_want_store(mysql simba_has_mysql libmariadb-dev libmariadb_FOUND)
if(simba_has_mysql)
  set(simba_mysql_dir ${simba_sql_dir}/../mysql)
  foreach(file IN ITEMS schema statements)
    simba_embed_sections(
      ${CMAKE_BINARY_DIR}/generated/backends/mysql/${file}.h
      ${simba_mysql_dir}/${file}.sql SIMBA__MY_ "--")
  endforeach()
  simba_add_store(mysql SOURCES ${simba_sql_sources}
    ${simba_mysql_dir}/connection.c
    ${simba_mysql_dir}/errors.c
    ${simba_mysql_dir}/mysql.c
    ${simba_mysql_dir}/notify.c
    ${simba_mysql_dir}/settings.c
    ${simba_mysql_dir}/statements.c
    LINK PkgConfig::libmariadb)
endif()
