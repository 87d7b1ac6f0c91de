# Tests of the stores on SQL servers, each beside a server of its own, driven
# through their tables of functions.
function(simba_add_sql_test server library name)
  string(TOUPPER ${server} upper)
  set(test backend_${server}_${name})
  add_executable(${test}
    ${simba_sql_tests_dir}/test_${name}.c ${simba_sql_tests_dir}/double.c
    ${simba_sql_tests_dir}/sql_server_${server}.c
    ${simba_sql_tests_dir}/sql_noted.c
    ${PROJECT_SOURCE_DIR}/src/api/error.c
    ${loop_sources})
  target_compile_definitions(${test} PRIVATE SERVER_IS_${upper})
  target_link_libraries(${test} PRIVATE
    simba_${server} simba_mutex_record simba_core simba_util simba_warnings
    PkgConfig::cmocka PkgConfig::${library} Threads::Threads)
  set(beside ${simba_sql_tests_dir}/with_${server})
  if(name STREQUAL sql_hosts)
    set(beside ${simba_sql_tests_dir}/with_standby)
  endif()
  add_test(NAME ${test} COMMAND ${beside} $<TARGET_FILE:${test}>)
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77
                       ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 120)
endfunction()

set(simba_sql_tests_dir ${CMAKE_CURRENT_LIST_DIR})
foreach(name IN ITEMS sql sql_admin sql_faults sql_look sql_names sql_refusals
        sql_secrets sql_quiet sql_spare sql_tables sql_model sql_tls sql_clock)
  if(TARGET simba_postgres)
    simba_add_sql_test(postgres libpq ${name})
  endif()
  if(TARGET simba_mysql)
    simba_add_sql_test(mysql libmariadb ${name})
  endif()
endforeach()

foreach(server IN ITEMS postgres mysql)
  if(TARGET simba_${server})
    set_property(TEST backend_${server}_sql_tls backend_${server}_sql_names
                 APPEND PROPERTY ENVIRONMENT SIMBA_SERVER_TLS=1)
    set_property(TEST backend_${server}_sql_clock APPEND PROPERTY
                 ENVIRONMENT SIMBA_SERVER_TIME=1793509190)
    set_tests_properties(
      backend_${server}_sql_clock backend_${server}_sql_faults
      backend_${server}_sql_spare PROPERTIES LABELS slow)
  endif()
endforeach()

# What waiting costs, through the public API and the modules.
foreach(pair IN ITEMS postgres:libpq mysql:libmariadb)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 server)
  list(GET pair 1 library)
  if(NOT TARGET simba_module_${server})
    continue()
  endif()
  string(TOUPPER ${server} upper)
  foreach(topic IN ITEMS idle storm)
    set(test backend_${server}_${topic})
    add_executable(${test} ${simba_sql_tests_dir}/test_sql_${topic}.c
      ${simba_sql_tests_dir}/sql_server_${server}.c)
    target_compile_definitions(${test} PRIVATE SERVER_IS_${upper})
    target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${test} PRIVATE simba simba_warnings simba_instrument
      PkgConfig::cmocka PkgConfig::${library} Threads::Threads)
    add_dependencies(${test} simba_module_${server})
    add_test(NAME ${test}
      COMMAND ${simba_sql_tests_dir}/with_${server} $<TARGET_FILE:${test}>
              $<TARGET_FILE:simba_cli>)
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 LABELS slow
                         ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 200)
  endforeach()
  target_sources(backend_${server}_storm PRIVATE ${simba_sql_tests_dir}/crowd.c)
  add_test(NAME backend_${server}_small_disk
    COMMAND ${simba_sql_tests_dir}/with_${server}
            $<TARGET_FILE:backend_${server}_storm> $<TARGET_FILE:simba_cli>)
  set_tests_properties(backend_${server}_small_disk PROPERTIES
    SKIP_RETURN_CODE 77 LABELS slow TIMEOUT 200
    ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;SIMBA_SERVER_SMALL=1")
  add_test(NAME backend_${server}_clock_storm
    COMMAND ${simba_sql_tests_dir}/with_${server}
            $<TARGET_FILE:backend_${server}_storm> $<TARGET_FILE:simba_cli>)
  set_tests_properties(backend_${server}_clock_storm PROPERTIES
    SKIP_RETURN_CODE 77 LABELS slow TIMEOUT 200
    ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;SIMBA_SERVER_TIME=1793509190")
endforeach()

if(TARGET simba_postgres)
  simba_add_sql_test(postgres libpq sql_hosts)
  set_property(TEST backend_postgres_sql_hosts PROPERTY LABELS slow)
  foreach(topic IN ITEMS idle storm)
    add_test(NAME backend_postgres_${topic}_pooled
      COMMAND ${CMAKE_COMMAND} -E env SIMBA_SERVER_POOLED=1
              ${simba_sql_tests_dir}/with_postgres
              $<TARGET_FILE:backend_postgres_${topic}> $<TARGET_FILE:simba_cli>)
    set_tests_properties(backend_postgres_${topic}_pooled PROPERTIES
      SKIP_RETURN_CODE 77 LABELS slow
      ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 200)
  endforeach()
  foreach(name IN ITEMS sql sql_admin)
    add_test(NAME backend_postgres_${name}_pooled
      COMMAND ${CMAKE_COMMAND} -E env SIMBA_SERVER_POOLED=1
              ${simba_sql_tests_dir}/with_postgres
              $<TARGET_FILE:backend_postgres_${name}>)
    set_tests_properties(backend_postgres_${name}_pooled PROPERTIES
      SKIP_RETURN_CODE 77 ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 120)
  endforeach()
endif()

if(TARGET simba_mysql)
  foreach(name IN ITEMS sql sql_admin)
    add_test(NAME backend_mysql_${name}_galera
      COMMAND ${CMAKE_COMMAND} -E env SIMBA_SERVER_GALERA=1
              ${simba_sql_tests_dir}/with_mysql
              $<TARGET_FILE:backend_mysql_${name}>)
    set_tests_properties(backend_mysql_${name}_galera PROPERTIES
      SKIP_RETURN_CODE 77 LABELS slow
      ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 120)
  endforeach()
  foreach(topic IN ITEMS idle storm)
    add_test(NAME backend_mysql_${topic}_galera
      COMMAND ${CMAKE_COMMAND} -E env SIMBA_SERVER_GALERA=1
              ${simba_sql_tests_dir}/with_mysql
              $<TARGET_FILE:backend_mysql_${topic}> $<TARGET_FILE:simba_cli>)
    set_tests_properties(backend_mysql_${topic}_galera PROPERTIES
      SKIP_RETURN_CODE 77 LABELS slow
      ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 200)
  endforeach()
endif()

# The public API and the contract on each server, through the modules.
foreach(server IN ITEMS postgres mysql)
  if(NOT TARGET simba_module_${server})
    continue()
  endif()
  foreach(program IN ITEMS api_locker api_retrieval api_service tck_contract)
    add_dependencies(${program} simba_module_${server})
    add_test(NAME ${program}_${server}
      COMMAND ${simba_sql_tests_dir}/with_${server} $<TARGET_FILE:${program}>
              {})
    set_tests_properties(${program}_${server} PROPERTIES SKIP_RETURN_CODE 77
      ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;TSAN_OPTIONS=die_after_fork=0"
      TIMEOUT 300)
  endforeach()
  add_dependencies(api_admin simba_module_${server})
  add_test(NAME api_admin_${server}
    COMMAND ${simba_sql_tests_dir}/with_${server} $<TARGET_FILE:api_admin> {}
            --server)
  set_tests_properties(api_admin_${server} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;TSAN_OPTIONS=die_after_fork=0"
    TIMEOUT 300)
  set_tests_properties(tck_contract_${server} PROPERTIES LABELS slow
                       TIMEOUT 600)
  add_test(NAME tck_contract_${server}_quick
    COMMAND ${simba_sql_tests_dir}/with_${server} $<TARGET_FILE:tck_contract>
            --quick {})
  set_tests_properties(tck_contract_${server}_quick PROPERTIES
    SKIP_RETURN_CODE 77
    ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;TSAN_OPTIONS=die_after_fork=0"
    TIMEOUT 300)
endforeach()
