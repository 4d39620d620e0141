find_package(GTest REQUIRED)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY
  TEST_INCLUDE_FILES ${CMAKE_SOURCE_DIR}/tests/environment.cmake)

# dotresize_test(NAME SOURCES... [LIBRARIES ...] [TIMEOUT seconds]): one GoogleTest program, one CTest entry.
# The program runs all of its tests in one process: starting libtorch costs more than most tests do.
function(dotresize_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  dotresize_warnings(${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    DOTRESIZE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" DOTRESIZE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
