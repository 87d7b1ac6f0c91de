# A user with a compiler and pkg-config, no CMake: shared, then static.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})

function(ask result)
  execute_process(COMMAND pkg-config ${ARGN} simba OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

function(build_and_run name)
  execute_process(COMMAND ${CC} -std=c99 ${cflags} ${CONSUMER}/consumer.c
                          ${ARGN} -o ${WORK}/${name}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/${name} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

ask(cflags --cflags)
ask(libs --libs)
build_and_run(shared ${libs})
build_and_run(static ${PREFIX}/${LIBDIR}/libsimba.a)
