# Installs into an empty PREFIX: a file of an earlier run must not hide that
# today's rules forgot it.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX}
                COMMAND_ERROR_IS_FATAL ANY)

# What is found by its place.
foreach(file IN ITEMS bash-completion/completions/simba simba/complete.sh
                      fish/vendor_completions.d/simba.fish
                      zsh/site-functions/_simba
                      doc/simba/backends.md doc/simba/safety.md
                      doc/simba/examples/backend/simba-shelf.c)
  if(NOT EXISTS ${PREFIX}/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()
