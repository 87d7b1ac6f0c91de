# The SQLite store: its sources, and its SQL texts as headers of macros.
#
#   simba_sqlite_sources      what to compile
#   simba_sqlite_include_dir  where backends/sqlite/{schema,statements}.h are
#                             made; needs also libsqlite3
set(simba_sqlite_dir ${CMAKE_CURRENT_LIST_DIR})
set(simba_sqlite_include_dir ${CMAKE_BINARY_DIR}/generated)

set(simba_sqlite_sources)
foreach(name IN ITEMS admin clock connection doctor durability file liveness
                      notify observers record request settings sqlite)
  list(APPEND simba_sqlite_sources ${simba_sqlite_dir}/${name}.c)
endforeach()

foreach(name IN ITEMS schema statements)
  simba_embed_sections(
    ${simba_sqlite_include_dir}/backends/sqlite/${name}.h
    ${simba_sqlite_dir}/${name}.sql SIMBA__SQL_ "--")
endforeach()
