# The precompiled header of all code without libtorch (which has one of its own, TorchTarget.cmake): JSON, protobuf,
# gRPC and fmt take seconds to read, their users far less. CLI11 is not in it: it has objects of its own in every file that
# includes it, three seconds of compiling.
#
# dotresize_precompiled(TARGETS...): these use it. dotresize_precompiled_by(HEADER TARGETS...): another such header.
# dotresize_plain_header(TARGET [HEADERS...]): carries such a header, with these headers in it.
function(dotresize_plain_header name)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
  dotresize_warnings(${name})  # -Wpedantic changes predefined macros: all users must agree on it
  target_link_libraries(${name} PRIVATE gRPC::grpc++ nlohmann_json::nlohmann_json fmt::fmt)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional> <string> <thread> <vector>
    <google/protobuf/util/json_util.h> <grpcpp/grpcpp.h> <nlohmann/json.hpp>
    ${CMAKE_SOURCE_DIR}/cmake/fmt_once.h ${ARGN})
endfunction()

if(NOT DOTRESIZE_NUMERICS_ONLY AND NOT TARGET dotresize_plain_pch)
  find_package(fmt REQUIRED GLOBAL)
  find_package(gRPC CONFIG REQUIRED GLOBAL)
  find_package(nlohmann_json 3.11 REQUIRED GLOBAL)
  find_package(Protobuf REQUIRED GLOBAL)
  dotresize_plain_header(dotresize_plain_pch)
endif()

function(dotresize_precompiled)
  dotresize_precompiled_by(dotresize_plain_pch ${ARGN})
endfunction()

function(dotresize_precompiled_by header)
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)  # the precompiled header is -fPIC code, a program by default -fPIE
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
    target_compile_options(${target} PRIVATE -pthread)  # defines a macro, as gRPC's users have it
    target_link_libraries(${target} PRIVATE fmt::fmt)  # defines a macro too
    target_precompile_headers(${target} REUSE_FROM ${header})
  endforeach()
endfunction()
