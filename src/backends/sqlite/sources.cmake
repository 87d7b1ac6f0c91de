# The SQLite store: its sources, and its SQL texts as headers of macros.
#
#   simba_sqlite_sources      what to compile
#   simba_sqlite_include_dir  where backends/sqlite/{schema,statements}.h are
#                             made; needs also libsqlite3
set(simba_sqlite_dir ${CMAKE_CURRENT_LIST_DIR})
set(simba_sqlite_include_dir ${CMAKE_BINARY_DIR}/generated)

set(simba_sqlite_sources
  ${simba_sqlite_dir}/admin.c
  ${simba_sqlite_dir}/clock.c
  ${simba_sqlite_dir}/connection.c
  ${simba_sqlite_dir}/doctor.c
  ${simba_sqlite_dir}/file.c
  ${simba_sqlite_dir}/liveness.c
  ${simba_sqlite_dir}/notify.c
  ${simba_sqlite_dir}/observers.c
  ${simba_sqlite_dir}/record.c
  ${simba_sqlite_dir}/request.c
  ${simba_sqlite_dir}/settings.c
  ${simba_sqlite_dir}/sqlite.c
  ${simba_sqlite_dir}/token_reserve.c
  ${simba_sqlite_dir}/wal.c
)

foreach(name IN ITEMS schema statements)
  simba_embed_sections(
    ${simba_sqlite_include_dir}/backends/sqlite/${name}.h
    ${simba_sqlite_dir}/${name}.sql SIMBA__SQL_ "--")
endforeach()
