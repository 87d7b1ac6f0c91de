# simba_warnings: link it PRIVATE to every target that compiles our C.
add_library(simba_warnings INTERFACE)
target_compile_options(simba_warnings INTERFACE
  -Wall
  -Wextra
  -Wpedantic
  -Wshadow
  -Wconversion
  -Wstrict-prototypes
  -Wmissing-prototypes
  -Wformat=2
  -Wvla
)

# Off by default: a newer compiler must not break the build of a user.
if(SIMBA_WERROR)
  target_compile_options(simba_warnings INTERFACE -Werror)
endif()
