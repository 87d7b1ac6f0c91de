# The SQLite store: its sources, and its SQL texts as a header of macros.
#
#   simba_sqlite_sources      what to compile
#   simba_sqlite_include_dir  where backends/sqlite/sql.h is made; needs also
#                             libsqlite3
set(simba_sqlite_dir ${CMAKE_CURRENT_LIST_DIR})
set(simba_sqlite_include_dir ${CMAKE_BINARY_DIR}/generated)

set(simba_sqlite_sources
  ${simba_sqlite_dir}/admin.c
  ${simba_sqlite_dir}/bell.c
  ${simba_sqlite_dir}/bury.c
  ${simba_sqlite_dir}/clock.c
  ${simba_sqlite_dir}/database.c
  ${simba_sqlite_dir}/doctor.c
  ${simba_sqlite_dir}/eye.c
  ${simba_sqlite_dir}/file.c
  ${simba_sqlite_dir}/forked.c
  ${simba_sqlite_dir}/judge.c
  ${simba_sqlite_dir}/keep.c
  ${simba_sqlite_dir}/locked.c
  ${simba_sqlite_dir}/log.c
  ${simba_sqlite_dir}/presence.c
  ${simba_sqlite_dir}/record.c
  ${simba_sqlite_dir}/reserve.c
  ${simba_sqlite_dir}/schema.c
  ${simba_sqlite_dir}/serve.c
  ${simba_sqlite_dir}/settings.c
  ${simba_sqlite_dir}/sqlite.c
  ${simba_sqlite_dir}/store.c
  ${simba_sqlite_dir}/turn.c
  ${simba_sqlite_dir}/watch.c
  ${simba_sqlite_dir}/watch_events.c
)

set(simba_sqlite_sql
  audit_table
  break_tenure
  drop_process
  drop_strangers
  drop_tombstones
  drop_waiter
  free_process
  list_mutexes
  load_line
  load_mutex
  load_reserve
  load_tombstone
  reserve_table
  schema
  store_audit
  store_mutex
  store_reserve
  store_tenure
  store_tombstone
  store_waiter
  tell_reserve
)

include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/SimbaSql.cmake)
simba_embed_sql(${simba_sqlite_include_dir}/backends/sqlite/sql.h
                ${simba_sqlite_dir} SIMBA__SQL_ ${simba_sqlite_sql})
