# dotresize_torch_library(NAME SOURCES... [LIBRARIES ...]): a library of worker/ that uses ATen, through a
# precompiled header of its own (an ATen translation unit costs 5 s without it).
#
# dotresize_torch_header(TARGET [HEADERS...]): carries such a header, with these headers in it.
# dotresize_torch_target(TARGET [HEADER]): uses it, or the one that HEADER carries.
function(dotresize_torch_header name)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
  dotresize_warnings(${name})  # -Wpedantic changes predefined macros: all users must agree on it
  target_link_libraries(${name} PUBLIC libtorch)
  target_precompile_headers(${name} PRIVATE <ATen/ATen.h> <string> <vector> <memory> <optional> ${ARGN})
endfunction()
if(DOTRESIZE_NUMERICS_ONLY)
  dotresize_torch_header(dotresize_pch)
else()
  find_package(nlohmann_json 3.11 REQUIRED GLOBAL)
  find_package(fmt REQUIRED GLOBAL)
  dotresize_torch_header(dotresize_pch <nlohmann/json.hpp> ${CMAKE_SOURCE_DIR}/cmake/fmt_once.h)
  target_link_libraries(dotresize_pch PRIVATE nlohmann_json::nlohmann_json fmt::fmt)
endif()

# Programs alone: it takes the place of a function of MKL (worker/kernels/mkl_dispatch.h).
add_library(dotresize_mkl_dispatch OBJECT ${CMAKE_SOURCE_DIR}/worker/kernels/mkl_dispatch.cpp)
dotresize_warnings(dotresize_mkl_dispatch)
target_include_directories(dotresize_mkl_dispatch PRIVATE ${CMAKE_SOURCE_DIR})

function(dotresize_torch_target target)
  set(header dotresize_pch ${ARGN})
  list(GET header -1 header)
  target_link_libraries(${target} PUBLIC libtorch)
  if(NOT DOTRESIZE_NUMERICS_ONLY)
    target_link_libraries(${target} PRIVATE fmt::fmt)  # defines a macro that all users of a header must agree on
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)  # the precompiled header is -fPIC code, a program by default -fPIE
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
    target_link_libraries(${target} PRIVATE dotresize_mkl_dispatch)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${header})
endfunction()

function(dotresize_torch_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  dotresize_warnings(${name})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LIBRARIES})
  dotresize_torch_target(${name})
endfunction()
