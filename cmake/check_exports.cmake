# Proves that a shared library exports simba_* and hides simba__* and the rest.
#
#   cmake -DNM=nm -DLIBRARY=libsimba.so -P check_exports.cmake
execute_process(COMMAND ${NM} -D --defined-only --format=posix ${LIBRARY}
                OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" symbols "${listing}")

# An empty list would pass below, yet nobody could use such a library.
if(NOT symbols)
  message(FATAL_ERROR "${LIBRARY} exports nothing")
endif()

foreach(symbol IN LISTS symbols)
  if(symbol MATCHES " A ") # no symbol, but the name of a version
    continue()
  endif()
  string(REGEX REPLACE " .*" "" name "${symbol}")
  if(NOT name MATCHES "^simba_[a-z]")
    message(SEND_ERROR "must not export ${name}")
  endif()
endforeach()
