# find_package(simba VERSION) is given what docs/abi.md promises.
#
#   cmake -DSOURCE=… -DWORK=… -P version_file.cmake
include(${SOURCE}/cmake/SimbaVersionFile.cmake)

# found(INSTALLED ASKED IS-TAKEN)
function(found installed asked is_taken)
  set(file ${WORK}/version_${installed}.cmake)
  simba_write_version_file(${file} ${installed})
  set(PACKAGE_FIND_VERSION ${asked})
  string(REGEX MATCH "^[0-9]+" PACKAGE_FIND_VERSION_MAJOR ${asked})
  string(REGEX REPLACE "^[0-9]+\\." "" PACKAGE_FIND_VERSION_MINOR ${asked})
  include(${file})
  if(NOT PACKAGE_VERSION_COMPATIBLE STREQUAL is_taken)
    message(SEND_ERROR "${asked} of ${installed}: not ${is_taken}")
  endif()
endfunction()

found(0.2.0 0.1 FALSE)
found(0.1.3 0.1 TRUE)
found(1.0.0 1.0 TRUE)
found(1.2.3 1.0 TRUE)
found(1.0.0 1.1 FALSE)
found(2.0.0 1.0 FALSE)
