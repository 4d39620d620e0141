# dotresize_torch_library(NAME SOURCES... [LIBRARIES ...]): a library of worker/ that uses ATen, through the one
# precompiled header of the project (an ATen translation unit costs 5 s without it).
add_library(dotresize_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
dotresize_warnings(dotresize_pch)  # -Wpedantic changes predefined macros: all users must agree on it
target_link_libraries(dotresize_pch PUBLIC libtorch)
target_precompile_headers(dotresize_pch PRIVATE <ATen/ATen.h> <string> <vector> <memory> <optional>)

function(dotresize_torch_target target)
  target_link_libraries(${target} PUBLIC libtorch)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)  # the precompiled header is -fPIC code, a program by default -fPIE
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM dotresize_pch)
endfunction()

function(dotresize_torch_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  dotresize_warnings(${name})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LIBRARIES})
  dotresize_torch_target(${name})
endfunction()
