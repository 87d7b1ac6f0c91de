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
