# Tests of the SQLite store, driven through its table of functions: with the
# runtime's loop and worker, and double.c for what stands above them.
set(loop_sources)
foreach(name IN ITEMS driver fork loop thread timers worker)
  list(APPEND loop_sources ${PROJECT_SOURCE_DIR}/src/runtime/${name}.c)
endforeach()

foreach(name IN ITEMS sqlite sqlite_admin sqlite_boot sqlite_contend
                      sqlite_crash sqlite_denied sqlite_eye sqlite_file
                      sqlite_model sqlite_power sqlite_push
                      sqlite_reserve sqlite_walk)
  add_executable(backend_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
                                 ${CMAKE_CURRENT_LIST_DIR}/double.c
                                 ${CMAKE_CURRENT_LIST_DIR}/double_report.c
                                 ${loop_sources}
                                 ${PROJECT_SOURCE_DIR}/src/api/error.c)
  target_link_libraries(backend_${name} PRIVATE
    simba_sqlite simba_mutex_record simba_core simba_util simba_warnings PkgConfig::cmocka
    PkgConfig::sqlite3 Threads::Threads)
  add_test(NAME backend_${name} COMMAND backend_${name})
  set_tests_properties(backend_${name} PROPERTIES
                       ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 60)
endforeach()
set_tests_properties(backend_sqlite_contend backend_sqlite_power
                     backend_sqlite_walk PROPERTIES LABELS slow)
set_tests_properties(backend_sqlite_walk PROPERTIES TIMEOUT 240)
