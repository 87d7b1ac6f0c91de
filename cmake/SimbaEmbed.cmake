# Texts of other languages in C: a file of statements or scripts becomes a
# header of macros.
#
#   simba_embed_sections(HEADER FILE PREFIX COMMENT)
#
# A line "COMMENT name: load_mutex" in FILE (COMMENT is "--" in SQL and in Lua)
# begins a section, which becomes the string literal <PREFIX>LOAD_MUTEX. Comments
# are left out; lines stay lines, for those who read what `simba init --print` or
# a server's log shows. What stands before the first section is for readers only.
function(simba_embed_sections header file prefix comment)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} rest)
  # CMake's lists end at semicolons and brackets, so the text is cut by hand.
  set(text "/* Made from ${file}. */\n")
  set(mark "${comment} name: ")
  string(LENGTH "${mark}" mark_length)
  string(FIND "${rest}" "${mark}" at)
  while(NOT at EQUAL -1)
    math(EXPR at "${at} + ${mark_length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(REGEX MATCH "^[a-z0-9_]+" name "${rest}")
    string(LENGTH "${name}" length)
    string(SUBSTRING "${rest}" ${length} -1 rest)
    string(FIND "${rest}" "${mark}" at)
    string(SUBSTRING "${rest}" 0 ${at} body)
    string(REGEX REPLACE "${comment}( [^\n]*)?\n" "\n" body "${body}")
    string(REGEX REPLACE "[ \t]*\n[ \t]*\n+" "\n" body "${body}")
    string(REGEX REPLACE "[ \t]+\n" "\n" body "${body}")
    string(REGEX REPLACE "\n\n+" "\n" body "${body}")
    string(REGEX REPLACE "^\n+" "" body "${body}")
    string(REPLACE "\\" "\\\\" body "${body}")
    string(REPLACE "\"" "\\\"" body "${body}")
    string(REPLACE "\n" "\\n\"\n    \"" body "${body}")
    string(REPLACE "\n" " \\\n" body "${body}")
    string(TOUPPER ${name} macro)
    string(APPEND text "#define ${prefix}${macro} \\\n    \"${body}\"\n")
  endwhile()
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}" @ONLY)
endfunction()

# Files as bytes, for a server to send:
#
#   simba_embed_files(HEADER NAME DIRECTORY "PATH FILE TYPE"...)
#
# makes a table NAME of struct NAME_file {path, type, bytes, size}.
function(simba_embed_files header name directory)
  set(text "#include <stddef.h>\n\n")
  set(rows "")
  foreach(entry IN LISTS ARGN)
    separate_arguments(entry UNIX_COMMAND "${entry}")
    list(GET entry 0 path)
    list(GET entry 1 file)
    list(GET entry 2 type)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                 ${directory}/${file})
    file(READ ${directory}/${file} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(................................................................................)"
           "\\1\n" bytes "${bytes}")
    string(MAKE_C_IDENTIFIER "${file}" id)
    string(APPEND text "static const unsigned char ${name}_${id}[] = {\n${bytes}};\n")
    string(APPEND rows "    {\"${path}\", \"${type}; charset=utf-8\", ${name}_${id}, sizeof ${name}_${id}},\n")
  endforeach()
  string(APPEND text "\nstatic const struct ${name}_file {\n    const char *path, *type;\n    const unsigned char *bytes;\n    size_t size;\n} ${name}[] = {\n${rows}};\n")
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}" @ONLY)
endfunction()
