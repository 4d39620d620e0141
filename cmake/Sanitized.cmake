# dotresize_sanitized_library(NAME SOURCES ... LIBRARIES ...): sources once more, under AddressSanitizer and
# UndefinedBehaviorSanitizer. Whatever links it is compiled and linked with them too; an error ends the program.
# -O0: optimising instrumented code takes minutes. -Wno-restrict: g++ 12 warns of its own std::string there. Reports name
# functions; for lines, which take a sixth of the compilation, configure with -DCMAKE_CXX_FLAGS=-g1.
# 36 sources are compiled as one, as DOTRESIZE_UNITY has it for the libraries themselves. Each such set takes a third of the time for
# what all of them instantiate. -Wno-shadow: sources of several libraries meet in a set, and their own libraries have the warning.
# -fsanitize-coverage: the fuzzers of tests/fuzz link the same libraries. Others pay for it with a few calls that do next to nothing.
# GTEST_HAS_PTHREAD: the precompiled header has GoogleTest for the tests, which define it.
include(Precompiled)
set(DOTRESIZE_SANITIZERS -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer
    -fsanitize-coverage=trace-pc,trace-cmp -DGTEST_HAS_PTHREAD=1)
if(NOT TARGET dotresize_sanitized_pch)
  add_library(dotresize_coverage STATIC ${CMAKE_SOURCE_DIR}/tests/fuzz/coverage.cpp)
  dotresize_plain_header(dotresize_sanitized_pch <gmock/gmock.h> <gtest/gtest.h> ${CMAKE_SOURCE_DIR}/cmake/json_once.h)
  target_link_libraries(dotresize_sanitized_pch PRIVATE GTest::gmock)
  target_compile_options(dotresize_sanitized_pch PRIVATE ${DOTRESIZE_SANITIZERS} -O0 -Wno-restrict)
endif()

function(dotresize_sanitized_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  dotresize_warnings(${name})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PUBLIC ${DOTRESIZE_SANITIZERS} -O0 -Wno-restrict PRIVATE -pthread -Wno-shadow)
  target_link_libraries(${name} PRIVATE fmt::fmt)
  target_precompile_headers(${name} REUSE_FROM dotresize_sanitized_pch)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 36)
  target_link_options(${name} PUBLIC ${DOTRESIZE_SANITIZERS})
  target_link_libraries(${name} PUBLIC ${ARG_LIBRARIES} dotresize_coverage)
endfunction()

# dotresize_sources_of(VARIABLE TARGETS...): absolute paths of the sources of targets.
function(dotresize_sources_of variable)
  set(sources)
  foreach(target IN LISTS ARGN)
    get_target_property(dir ${target} SOURCE_DIR)
    get_target_property(names ${target} SOURCES)
    foreach(name IN LISTS names)
      cmake_path(ABSOLUTE_PATH name BASE_DIRECTORY ${dir})  # generated sources have such a path already
      list(APPEND sources ${name})
    endforeach()
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
