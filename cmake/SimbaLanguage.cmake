# One dialect for every target: plain C11, so that nothing leans on a compiler.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

# What is not marked SIMBA_API stays inside the library.
set(CMAKE_C_VISIBILITY_PRESET hidden)

# clang-tidy reads the compile commands.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
