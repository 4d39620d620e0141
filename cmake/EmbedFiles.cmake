# dotresize_embed_files(OUTPUT file.cpp HEADER header.h FILES function=file ...): a C++ source that
# defines, for each pair, `std::string_view dotresize::function()` with the file's bytes. `header.h`
# declares them. The source is made again whenever a file changes.
#
# Bytes are written as numbers: no content can end a literal, and no compiler's limit on the length
# of string literals applies.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(_embed_script ${CMAKE_CURRENT_LIST_FILE})

  function(dotresize_embed_files)
    cmake_parse_arguments(ARG "" "OUTPUT;HEADER" "FILES" ${ARGN})
    set(files)
    foreach(pair IN LISTS ARG_FILES)
      string(REGEX REPLACE "^[^=]*=" "" file ${pair})
      list(APPEND files ${file})
    endforeach()
    string(REPLACE ";" "," pairs "${ARG_FILES}")
    add_custom_command(
      OUTPUT ${ARG_OUTPUT}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${ARG_OUTPUT} -DHEADER=${ARG_HEADER} -DPAIRS=${pairs}
              -P ${_embed_script}
      DEPENDS ${files} ${_embed_script}
      COMMENT "Embedding files in ${ARG_OUTPUT}"
      VERBATIM)
  endfunction()
  return()
endif()

set(source "#include \"${HEADER}\"\n\nnamespace dotresize {\n")
string(REPLACE "," ";" PAIRS "${PAIRS}")
foreach(pair IN LISTS PAIRS)
  string(REGEX MATCH "^([^=]*)=(.*)$" _ ${pair})
  set(function ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND source
    "\nstd::string_view ${function}() {\n"
    "  static constexpr unsigned char kBytes[] = {${bytes}0};\n"
    "  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes) - 1};\n}\n")
endforeach()
string(APPEND source "\n}  // namespace dotresize\n")
file(WRITE ${OUTPUT} "${source}")
