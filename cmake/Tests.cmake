find_package(GTest REQUIRED)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY
  TEST_INCLUDE_FILES ${CMAKE_SOURCE_DIR}/tests/environment.cmake)

# GoogleTest's headers beside those of the project's precompiled ones.
dotresize_torch_header(dotresize_torch_test_pch <gmock/gmock.h> <gtest/gtest.h>)
if(NOT DOTRESIZE_NUMERICS_ONLY)
  dotresize_plain_header(dotresize_test_pch <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(dotresize_test_pch PRIVATE GTest::gmock)
endif()
target_link_libraries(dotresize_torch_test_pch PRIVATE GTest::gmock)

# dotresize_test(NAME [TORCH | SANITIZED] SOURCES... [LIBRARIES ...] [TIMEOUT seconds]): one GoogleTest program, one CTest
# entry. TORCH: it uses ATen; SANITIZED: it links what Sanitized.cmake makes.
# The program runs all of its tests in one process: starting libtorch costs more than most tests do.
function(dotresize_test name)
  cmake_parse_arguments(ARG "TORCH;SANITIZED" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  dotresize_warnings(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    DOTRESIZE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DOTRESIZE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_TORCH)
    dotresize_torch_target(${name} dotresize_torch_test_pch)
  elseif(ARG_SANITIZED)
    dotresize_precompiled_by(dotresize_sanitized_pch ${name})
  else()
    dotresize_precompiled_by(dotresize_test_pch ${name})
    target_compile_options(${name} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)  # of std::string, g++ 12
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
