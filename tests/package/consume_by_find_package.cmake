# A user with CMake: configures, builds and runs the project in CONSUMER.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK} -G Ninja
                        -DCMAKE_C_COMPILER=${CC} -DCMAKE_PREFIX_PATH=${PREFIX}
                        -DWANTED=${WANTED}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}
                COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN ITEMS shared static contract)
  execute_process(COMMAND ${WORK}/${name} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
