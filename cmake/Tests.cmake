find_package(GTest REQUIRED)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY
  TEST_INCLUDE_FILES ${CMAKE_SOURCE_DIR}/tests/environment.cmake)

# GoogleTest's headers beside those of the project's precompiled ones. The tests themselves are compiled with -O0, which takes
# two thirds of the time; the code under test is not.
set(DOTRESIZE_TEST_OPTIMISATION $<$<CONFIG:Release>:-O0>)
dotresize_torch_header(dotresize_torch_test_pch <gmock/gmock.h> <gtest/gtest.h>)
set(_test_headers dotresize_torch_test_pch)
if(NOT DOTRESIZE_NUMERICS_ONLY)
  dotresize_plain_header(dotresize_test_pch <gmock/gmock.h> <gtest/gtest.h>)
  list(APPEND _test_headers dotresize_test_pch)
endif()
foreach(header IN LISTS _test_headers)
  target_link_libraries(${header} PRIVATE GTest::gmock)
  target_compile_options(${header} PRIVATE ${DOTRESIZE_TEST_OPTIMISATION})
endforeach()

# dotresize_test(NAME [TORCH | SANITIZED] [OPTIMISED] SOURCES... [ALONE ...] [LIBRARIES ...] [TIMEOUT seconds] [LABELS ...]): one
# GoogleTest program, one CTest entry, of the label fast unless it has others (CONTRIBUTING.md). TORCH: it uses ATen, and if it is OPTIMISED its own code computes for long;
# SANITIZED: it links the libraries of Sanitized.cmake. ALONE: further sources, whose names in unnamed namespaces others have too.
# The program runs all of its tests in one process: starting libtorch costs more than most tests do.
function(dotresize_test name)
  cmake_parse_arguments(ARG "TORCH;SANITIZED;OPTIMISED" "TIMEOUT" "SOURCES;ALONE;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_ALONE})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${DOTRESIZE_UNITY})
  set_property(SOURCE ${ARG_ALONE} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
  dotresize_warnings(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    DOTRESIZE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DOTRESIZE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_OPTIMISED)
    dotresize_torch_target(${name})
  elseif(ARG_TORCH)
    dotresize_torch_target(${name} dotresize_torch_test_pch)
    target_compile_options(${name} PRIVATE ${DOTRESIZE_TEST_OPTIMISATION})
  elseif(ARG_SANITIZED)
    dotresize_precompiled_by(dotresize_sanitized_pch ${name})
  else()
    dotresize_precompiled_by(dotresize_test_pch ${name})
    target_compile_options(${name} PRIVATE ${DOTRESIZE_TEST_OPTIMISATION})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
