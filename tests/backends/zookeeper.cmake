# Tests of the ZooKeeper store, against servers they start themselves. Without
# servers or a Java compiler they are skipped.
if(TARGET simba_zookeeper)
  set(zookeeper_tests ${CMAKE_CURRENT_LIST_DIR}/zookeeper)
  set(zookeeper_environment
    "CMOCKA_MESSAGE_OUTPUT=TAP" "SIMBA_MODULE_PATH=${CMAKE_BINARY_DIR}"
    "TSAN_OPTIONS=die_after_fork=0:suppressions=${zookeeper_tests}/tsan.supp"
    "LSAN_OPTIONS=print_suppressions=0:suppressions=${zookeeper_tests}/lsan.supp")

  add_executable(backend_zookeeper_pure
    ${zookeeper_tests}/test_zookeeper_pure.c ${CMAKE_CURRENT_LIST_DIR}/double.c
    ${CMAKE_CURRENT_LIST_DIR}/double_report.c ${loop_sources}
    ${PROJECT_SOURCE_DIR}/src/api/error.c)
  target_include_directories(backend_zookeeper_pure PRIVATE
                             ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(backend_zookeeper_pure PRIVATE
    simba_zookeeper simba_core simba_util simba_zookeeper_client simba_warnings
    PkgConfig::cmocka Threads::Threads)
  add_test(NAME backend_zookeeper_pure COMMAND backend_zookeeper_pure)
  set_tests_properties(backend_zookeeper_pure PROPERTIES
                       ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP)

  add_library(zookeeper_servers OBJECT ${zookeeper_tests}/proxy.c
                                       ${zookeeper_tests}/servers.c)
  target_link_libraries(zookeeper_servers PUBLIC simba_instrument
                                          PRIVATE simba_warnings)

  # Through the table of functions.
  foreach(name IN ITEMS zookeeper zookeeper_admin zookeeper_init zookeeper_away
                        zookeeper_faults zookeeper_many zookeeper_turns
                        zookeeper_packets zookeeper_curator)
    add_executable(backend_${name}
      ${zookeeper_tests}/test_${name}.c ${CMAKE_CURRENT_LIST_DIR}/double.c
      ${loop_sources} ${PROJECT_SOURCE_DIR}/src/api/error.c)
    target_include_directories(backend_${name} PRIVATE
                               ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(backend_${name} PRIVATE
      simba_zookeeper simba_core simba_util zookeeper_servers simba_zookeeper_client
      simba_warnings PkgConfig::cmocka Threads::Threads)
    add_test(NAME backend_${name} COMMAND backend_${name}
             ${PROJECT_SOURCE_DIR}/interop/curator/Latch.java)
    set_tests_properties(backend_${name} PROPERTIES SKIP_RETURN_CODE 77
                         ENVIRONMENT "${zookeeper_environment}" TIMEOUT 300)
  endforeach()

  # Through the public API, so that the module is loaded as users load it.
  foreach(name IN ITEMS zookeeper_stories zookeeper_ensemble)
    add_executable(${name} ${zookeeper_tests}/test_${name}.c)
    target_link_libraries(${name} PRIVATE
      simba zookeeper_servers ${SIMBA_ZOOKEEPER_LIBRARY} simba_warnings
      simba_instrument PkgConfig::cmocka Threads::Threads)
    add_dependencies(${name} simba_module_zookeeper simba_cli)
    add_test(NAME ${name} COMMAND ${name} $<TARGET_FILE:simba_cli>)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
      ENVIRONMENT "${zookeeper_environment}" TIMEOUT 300 PROCESSORS 2)
  endforeach()

  # The contract, and the tests of the API, on one server and on three.
  add_executable(with_zookeeper ${zookeeper_tests}/with_zookeeper.c)
  target_link_libraries(with_zookeeper PRIVATE zookeeper_servers simba_warnings
                                               Threads::Threads)
  add_dependencies(with_zookeeper simba_module_zookeeper)
  foreach(test IN ITEMS tck_contract api_locker api_service api_retrieval)
    foreach(count IN ITEMS 1 3)
      set(name ${test}_zookeeper_${count})
      add_test(NAME ${name} COMMAND with_zookeeper ${count}
                                    $<TARGET_FILE:${test}> {})
      set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
        ENVIRONMENT "${zookeeper_environment}" TIMEOUT 600 PROCESSORS 2
        LABELS slow)
    endforeach()
  endforeach()
endif()
