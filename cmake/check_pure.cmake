# Proves that objects are pure: they call nothing that could tell time, do I/O
# or allocate, and they keep no state between calls.
#
#   cmake -DNM=nm "-DOBJECTS=a.o;b.o" ["-DALSO=malloc;free"] -P check_pure.cmake
#
# ALSO names what these objects may call beyond what the core may. What nm cannot
# see, such as inline assembly, is left to the reader.

# bcmp is what clang makes of memcmp() == 0; the offset table is no call but
# the mark of position independent code.
set(may_need
  "mem(cpy|move|set|cmp|chr)" bcmp "str(len|cmp|ncmp)"
  __assert_fail __stack_chk_fail _GLOBAL_OFFSET_TABLE_
  ${ALSO}
)
list(JOIN may_need "|" may_need)

# Without objects there would be nothing to find, and the test would pass.
if(NOT OBJECTS)
  message(FATAL_ERROR "check_pure: no objects given")
endif()

# What the objects define themselves they may call; nothing else of ours, or a
# clock of the runtime would pass as pure.
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix
                          ${object}
                  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" symbols "${listing}")
  foreach(symbol IN LISTS symbols)
    string(REGEX REPLACE " .*" "" name "${symbol}")
    string(APPEND may_need "|${name}")
  endforeach()
endforeach()

foreach(object IN LISTS OBJECTS)
  # sysv format: name|value|class|type|size|line|section
  execute_process(COMMAND ${NM} --format=sysv ${object}
                  OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE " " "" listing "${listing}")
  string(REGEX MATCHALL "[^\n]+\\|[^\n]*" symbols "${listing}")
  cmake_path(GET object FILENAME file)

  foreach(symbol IN LISTS symbols)
    string(REGEX MATCH
           "^([^|]*)\\|[^|]*\\|([^|]*)\\|[^|]*\\|[^|]*\\|[^|]*\\|(.*)$"
           matched "${symbol}")
    set(name "${CMAKE_MATCH_1}")
    set(class "${CMAKE_MATCH_2}")
    set(section "${CMAKE_MATCH_3}")

    if(class MATCHES "^[Uvw]$" AND NOT name MATCHES "^(${may_need})$")
      message(SEND_ERROR "${file}: must not use ${name}")
    # Constant tables of pointers are filled in by the loader, then read-only.
    elseif(class MATCHES "^[BbDdCcGgSs]$" AND
           NOT section MATCHES "^\\.data\\.rel\\.ro")
      message(SEND_ERROR "${file}: must not keep state in ${name}")
    endif()
  endforeach()
endforeach()
