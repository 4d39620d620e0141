# The imported target `libtorch`: ATen on the CPU, from -DLIBTORCH=DIR (a folder with include/ and lib/),
# by default the one in .venv/. TorchConfig.cmake is not used: it insists on a matching CUDA toolkit.
#
# torch's include folder carries its own protobuf and fmt, which would shadow the system's: hence -idirafter.
set(LIBTORCH "" CACHE PATH "libtorch: a folder with include/ and lib/ (default: the one in .venv/)")
set(_libtorch_dir ${LIBTORCH})
if(NOT _libtorch_dir)
  file(GLOB _libtorch_dir ${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/torch)
endif()
if(NOT EXISTS "${_libtorch_dir}/include/ATen/ATen.h")
  message(FATAL_ERROR "libtorch not found in '${_libtorch_dir}': run scripts/setup.sh, or pass -DLIBTORCH=DIR")
endif()

# dotresize_install_rpath(TARGETS...): installed, they find libtorch at the same place.
function(dotresize_install_rpath)
  set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH ${_libtorch_dir}/lib)
endfunction()

add_library(libtorch INTERFACE IMPORTED)
target_compile_options(libtorch INTERFACE
  "SHELL:-idirafter ${_libtorch_dir}/include"
  "SHELL:-idirafter ${_libtorch_dir}/include/torch/csrc/api/include")
target_link_directories(libtorch INTERFACE ${_libtorch_dir}/lib)
# RPATH, which libtorch has too, comes before LD_LIBRARY_PATH; RUNPATH would let another NCCL of a cluster's modules in.
target_link_options(libtorch INTERFACE -Wl,-rpath,${_libtorch_dir}/lib -Wl,--disable-new-dtags)
# One item: CMake drops all but one of equal items, and Abseil's targets end in the same --pop-state.
target_link_libraries(libtorch INTERFACE -Wl,--push-state,--no-as-needed,-ltorch_cpu,-lc10,--pop-state)

# `libtorch_openmp`: the OpenMP runtime of libtorch itself, for code that calls at::parallel_for. Without -fopenmp that is a
# plain loop; with another runtime there would be two sets of threads.
file(GLOB _libgomp ${_libtorch_dir}/lib/libgomp*.so*)
if(NOT _libgomp)
  set(_libgomp gomp)
endif()
add_library(libtorch_openmp INTERFACE IMPORTED)
target_link_libraries(libtorch_openmp INTERFACE ${_libgomp})
