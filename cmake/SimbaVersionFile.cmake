# Which versions find_package(simba VERSION) takes: from 1.0 on all of a major
# version that are not older (docs/abi.md), before that those of a minor version.
include(CMakePackageConfigHelpers)

function(simba_write_version_file path version)
  set(kept SameMajorVersion)
  if(version VERSION_LESS 1.0)
    set(kept SameMinorVersion)
  endif()
  write_basic_package_version_file(${path} VERSION ${version}
                                   COMPATIBILITY ${kept})
endfunction()
