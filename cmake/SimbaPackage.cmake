# What `cmake --install` lays down: libraries, headers, and how to find them.
include(CMakePackageConfigHelpers)
include(SimbaVersionFile)

set(simba_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/simba)

install(TARGETS simba simba_static simba_tck EXPORT simba_targets)
install(FILES ${PROJECT_SOURCE_DIR}/include/simba.h TYPE INCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/simba TYPE INCLUDE
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
# What authors of stores need beside the headers.
install(FILES ${PROJECT_SOURCE_DIR}/docs/backends.md
              ${PROJECT_SOURCE_DIR}/docs/safety.md TYPE DOC)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/backend
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(EXPORT simba_targets NAMESPACE simba:: FILE simba-targets.cmake
        DESTINATION ${simba_cmake_dir})

configure_package_config_file(cmake/simba-config.cmake.in simba-config.cmake
                              INSTALL_DESTINATION ${simba_cmake_dir})
simba_write_version_file(simba-config-version.cmake ${PROJECT_VERSION})
install(FILES ${PROJECT_BINARY_DIR}/simba-config.cmake
              ${PROJECT_BINARY_DIR}/simba-config-version.cmake
        DESTINATION ${simba_cmake_dir})

# The prefix is told relative to the .pc file, as it may change on install.
file(RELATIVE_PATH SIMBA_PC_TO_PREFIX
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" SIMBA_PC_TO_PREFIX ${SIMBA_PC_TO_PREFIX})
configure_file(cmake/simba.pc.in simba.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/simba.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
