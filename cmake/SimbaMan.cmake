# The manual, made by the program that it is about and from the headers; left
# out where that program cannot be run, or the script's tools are not there.
find_program(SIMBA_BASH bash)
find_program(SIMBA_AWK awk)
if(CMAKE_CROSSCOMPILING OR NOT SIMBA_BASH OR NOT SIMBA_AWK)
  return()
endif()

set(simba_man_dir ${PROJECT_BINARY_DIR}/man)
file(GLOB simba_man_headers CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/include/simba/*.h
     ${PROJECT_SOURCE_DIR}/include/simba/sys/*.h)
file(GLOB simba_man_documents CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/docs/configuration.md
     ${PROJECT_SOURCE_DIR}/src/backends/*/README.md)
# Stores tell of themselves what their URLs may say.
set(simba_man_stores)
if(TARGET simba_tool_serve)
  list(APPEND simba_man_stores simba_tool_serve)
endif()
foreach(store IN ITEMS redis mysql postgres zookeeper etcd)
  if(TARGET simba_module_${store})
    list(APPEND simba_man_stores simba_module_${store})
  endif()
endforeach()
add_custom_command(OUTPUT ${simba_man_dir}/libsimba.3
  COMMAND ${SIMBA_BASH} ${PROJECT_SOURCE_DIR}/scripts/man
          $<TARGET_FILE:simba_cli> ${simba_man_dir}
  DEPENDS simba_cli ${simba_man_stores} simba_tool_bench simba_tool_tck simba_tool_verify
          ${simba_man_headers}
          ${PROJECT_SOURCE_DIR}/scripts/man
          ${PROJECT_SOURCE_DIR}/scripts/man_page.awk
          ${PROJECT_SOURCE_DIR}/scripts/man_headers.awk
          ${PROJECT_SOURCE_DIR}/scripts/man_markdown.awk
          ${simba_man_documents}
          ${PROJECT_SOURCE_DIR}/scripts/man_simba.txt
  COMMENT "Writing the manual" VERBATIM)
add_custom_target(simba_man ALL DEPENDS ${simba_man_dir}/libsimba.3)
foreach(section IN ITEMS 1 3 5 7)
  install(DIRECTORY ${simba_man_dir}/
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section}
          FILES_MATCHING PATTERN "*.${section}")
endforeach()
