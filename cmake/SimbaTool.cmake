# Programs that simba(1) runs as its commands: simba-<name>, in the directory
# that simba looks into. In the build tree it lies beside cli/simba as it does
# beside an installed one.
#
#   SIMBA_LIBEXEC      that directory, from where simba is
#   simba_add_tool(name source...)  makes simba_tool_<name>
file(RELATIVE_PATH SIMBA_LIBEXEC ${CMAKE_INSTALL_FULL_BINDIR}
     ${CMAKE_INSTALL_FULL_LIBEXECDIR}/simba)
cmake_path(SET simba_tool_dir NORMALIZE
           ${PROJECT_BINARY_DIR}/cli/${SIMBA_LIBEXEC})

function(simba_add_tool name)
  add_executable(simba_tool_${name} ${ARGN})
  set_target_properties(simba_tool_${name} PROPERTIES
    OUTPUT_NAME simba-${name} RUNTIME_OUTPUT_DIRECTORY ${simba_tool_dir})
  target_include_directories(simba_tool_${name} PRIVATE
                             ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(simba_tool_${name} PRIVATE simba_cli_kit simba_warnings
                                                   simba_instrument)
  install(TARGETS simba_tool_${name}
          RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/simba)
endfunction()
