# simba_instrument: flags that both compiler and linker must see. simba_core
# passes it on, so whatever links the core is instrumented alike.
add_library(simba_instrument INTERFACE)

function(simba_instrument_with)
  target_compile_options(simba_instrument INTERFACE ${ARGV})
  target_link_options(simba_instrument INTERFACE ${ARGV})
endfunction()

if(SIMBA_SANITIZE)
  # A finding ends the program; otherwise a test would print it and pass.
  simba_instrument_with(-fsanitize=${SIMBA_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
endif()

if(SIMBA_COVERAGE)
  simba_instrument_with(--coverage)
endif()

if(SIMBA_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SIMBA_FUZZ needs clang: only it has libFuzzer")
  endif()
  # no-link: each fuzz target links the driver, with its main(), by itself.
  simba_instrument_with(-fsanitize=fuzzer-no-link,address,undefined
                        -fno-sanitize-recover=all -fno-omit-frame-pointer)
endif()

# Instrumented objects call their runtime and cannot be linked by strangers:
# tests that look at objects or at the installed package want a plain build.
set(SIMBA_PLAIN_BUILD ON)
if(SIMBA_SANITIZE OR SIMBA_COVERAGE OR SIMBA_FUZZ)
  set(SIMBA_PLAIN_BUILD OFF)
endif()
