# Tests of the Redis store on real servers, driven through its table of
# functions: with the runtime's loop, and double.c for what stands above it.
set(redis_loop_sources)
foreach(name IN ITEMS driver fork loop thread timers)
  list(APPEND redis_loop_sources ${PROJECT_SOURCE_DIR}/src/runtime/${name}.c)
endforeach()

add_library(test_redis_server STATIC
  ${PROJECT_SOURCE_DIR}/tests/servers/redis_server.c
  ${PROJECT_SOURCE_DIR}/tests/servers/redis_shapes.c
  ${PROJECT_SOURCE_DIR}/tests/servers/redis_wire.c)
target_include_directories(test_redis_server PUBLIC
  ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(test_redis_server PUBLIC PkgConfig::hiredis
                                        PRIVATE simba_warnings
                                                simba_instrument)

foreach(name IN ITEMS redis redis_errors redis_faults redis_model redis_push
                      redis_shapes redis_trouble redis_wire)
  add_executable(backend_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
                                 ${CMAKE_CURRENT_LIST_DIR}/double.c
                                 ${CMAKE_CURRENT_LIST_DIR}/double_report.c
                                 ${redis_loop_sources}
                                 ${PROJECT_SOURCE_DIR}/src/api/error.c)
  target_link_libraries(backend_${name} PRIVATE
    simba_redis simba_mutex_record simba_core simba_util test_redis_server simba_warnings
    PkgConfig::cmocka PkgConfig::hiredis PkgConfig::openssl Threads::Threads)
  add_test(NAME backend_${name} COMMAND backend_${name})
  set_tests_properties(backend_${name} PROPERTIES
                       ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP TIMEOUT 120)
endforeach()

# Any program on a server of its own: with_redis SHAPE PROGRAM ... {} ...
add_executable(with_redis ${PROJECT_SOURCE_DIR}/tests/servers/with_redis.c)
target_link_libraries(with_redis PRIVATE test_redis_server simba_warnings
                                         simba_instrument)

# The public API on Redis in all its shapes.
foreach(topic IN ITEMS admin locker retrieval service)
  set(option)
  if(topic STREQUAL admin)
    set(option --server)
  endif()
  foreach(shape IN ITEMS single unix tls sentinel cluster)
    add_test(NAME api_${topic}_redis_${shape}
             COMMAND with_redis ${shape} $<TARGET_FILE:api_${topic}> {}
                     ${option})
    add_dependencies(api_${topic} simba_module_redis)
    set_tests_properties(api_${topic}_redis_${shape} PROPERTIES
      ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;TSAN_OPTIONS=die_after_fork=0"
      TIMEOUT 180)
  endforeach()
endforeach()

# The contract on each of them.
foreach(shape IN ITEMS single unix tls sentinel cluster)
  add_test(NAME tck_redis_${shape}
           COMMAND with_redis ${shape} $<TARGET_FILE:tck_contract> {})
  add_dependencies(tck_contract simba_module_redis)
  set_tests_properties(tck_redis_${shape} PROPERTIES
    ENVIRONMENT "CMOCKA_MESSAGE_OUTPUT=TAP;TSAN_OPTIONS=die_after_fork=0"
    LABELS slow TIMEOUT 600)
endforeach()

# Contenders while servers are killed, paused, moved and made to forget.
foreach(name IN ITEMS back contend many replicas)
  add_executable(redis_${name} ${CMAKE_CURRENT_LIST_DIR}/test_redis_${name}.c)
  target_link_libraries(redis_${name} PRIVATE
    simba test_redis_server simba_warnings simba_instrument PkgConfig::cmocka
    Threads::Threads)
  add_dependencies(redis_${name} simba_module_redis)
endforeach()
foreach(name IN ITEMS contend many)
  target_sources(redis_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/crowd.c)
endforeach()
foreach(shape IN ITEMS single wire sentinel cluster)
  add_test(NAME redis_contend_${shape}
           COMMAND redis_contend ${shape} $<TARGET_FILE:simba_cli>)
  set_tests_properties(redis_contend_${shape} PROPERTIES
    ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP LABELS slow TIMEOUT 300)
endforeach()
add_test(NAME redis_back COMMAND redis_back)
add_test(NAME redis_many COMMAND redis_many $<TARGET_FILE:simba_cli>)
add_test(NAME redis_replicas COMMAND redis_replicas)
foreach(name IN ITEMS back many replicas)
  set_tests_properties(redis_${name} PROPERTIES
    ENVIRONMENT CMOCKA_MESSAGE_OUTPUT=TAP LABELS slow TIMEOUT 300)
endforeach()

add_test(NAME redis_commands
         COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/redis_commands_test.sh
                 ${PROJECT_SOURCE_DIR})

# There is something to compare with wherever hiredis can connect.
foreach(shape IN ITEMS single unix sentinel cluster)
  add_test(NAME redis_floor_${shape}
           COMMAND with_redis ${shape} bash -c
             "set -e; for what in pair handoff; do
                '$<TARGET_FILE:simba_cli>' --json bench $what -n 16 --store $0 |
                  grep '\"ratio_p50\":[0-9]'
              done" {})
  set_tests_properties(redis_floor_${shape} PROPERTIES
    ENVIRONMENT SIMBA_MODULE_PATH=$<TARGET_FILE_DIR:simba_module_redis>
    LABELS slow TIMEOUT 120)
endforeach()
