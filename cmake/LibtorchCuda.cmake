# The CUDA half of libtorch, if it has one: DOTRESIZE_CUDA, and the imported targets
#   libtorch_cuda  ATen on CUDA devices, and the CUDA runtime
#   nvrtc, nccl    those of the CUDA version that libtorch was built with
# and DOTRESIZE_LIBTORCH_FLAGS: the options of nvcc that name the GPUs for which libtorch has kernels.
# CUDA's own libraries come from the wheels beside torch/ (nvidia/*/), else from -DCUDA_ROOT=DIR, a toolkit.
# Programs do not link any of this: the worker opens a module that does (worker/cuda/), since loading it costs
# more than a second.
#
# A libtorch that cannot serve the GPUs it is meant for fails here, not on the machine that has them.
set(CUDA_ROOT "" CACHE PATH "CUDA toolkit with include/ and lib64/ (default: the wheels beside libtorch)")
set(DOTRESIZE_WITH_CUDA AUTO CACHE STRING
  "ON: fail without CUDA. OFF: build for the CPU alone. AUTO: as libtorch, and fail if it has CUDA that cannot be used")
set(DOTRESIZE_GPUS 70 CACHE STRING
  "Architectures that libtorch must have kernels for, 70 for sm_70 (V100); several as a list, 70;80")

set(DOTRESIZE_CUDA OFF)
if(DOTRESIZE_NUMERICS_ONLY OR NOT DOTRESIZE_WITH_CUDA)
  return()
endif()
set(_torch_cuda ${_libtorch_dir}/lib/libtorch_cuda.so)
if(NOT EXISTS ${_torch_cuda})
  if(NOT DOTRESIZE_WITH_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "libtorch in '${_libtorch_dir}' has no CUDA: install a CUDA build of torch, or pass -DDOTRESIZE_WITH_CUDA=OFF")
  endif()
  message(STATUS "No CUDA in libtorch: 'resources.device: cuda' will be refused")
  return()
endif()

# _dotresize_strings(RESULT FILE REGEX): strings of a binary that match, each once. file(STRINGS) takes minutes for a gigabyte.
function(_dotresize_strings result file regex)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C grep -aoE -- "${regex}" ${file} OUTPUT_VARIABLE found)
  string(REPLACE ";" "," found "${found}")
  string(REGEX MATCHALL "[^\n]+" found "${found}")
  list(REMOVE_DUPLICATES found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

_dotresize_strings(_runtime ${_libtorch_dir}/lib/libc10_cuda.so "libcudart\\.so\\.[0-9]+")
string(REGEX MATCH "[0-9]+$" _cuda_major "${_runtime}")
if(NOT _cuda_major)
  message(FATAL_ERROR "libtorch in '${_libtorch_dir}' does not say its version of CUDA: pass -DDOTRESIZE_WITH_CUDA=OFF to build for the CPU alone")
endif()

_dotresize_strings(DOTRESIZE_LIBTORCH_FLAGS ${_torch_cuda} "-gencode;arch=compute_[-a-z0-9_,;=]+")
string(REGEX MATCHALL "sm_[0-9]+" _architectures "${DOTRESIZE_LIBTORCH_FLAGS}")
foreach(gpu IN LISTS DOTRESIZE_GPUS)
  if(NOT sm_${gpu} IN_LIST _architectures)
    list(JOIN _architectures " " known)
    message(FATAL_ERROR
      "libtorch in '${_libtorch_dir}' has no kernels for sm_${gpu}, only for: ${known}. Take a torch that has them (docs/operations.md, GPUs), "
      "or say with -DDOTRESIZE_GPUS=80;90 which GPUs this build is for")
  endif()
endforeach()

set(_missing)
# Wheels of CUDA 12 have a folder for each part, those of CUDA 13 one for most of them.
function(_dotresize_cuda_part target component header library)
  file(GLOB candidates ${_libtorch_dir}/../nvidia/${component} ${_libtorch_dir}/../nvidia/cu${_cuda_major} ${CUDA_ROOT})
  find_path(${target}_INCLUDE ${header} HINTS ${candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_library(${target}_LIBRARY NAMES ${library} HINTS ${candidates} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  if(NOT ${target}_INCLUDE OR NOT ${target}_LIBRARY)
    set(_missing ${_missing} "${library} with ${header}" PARENT_SCOPE)
    return()
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  get_filename_component(folder ${${target}_LIBRARY} DIRECTORY)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  target_link_options(${target} INTERFACE -Wl,-rpath,${folder})
endfunction()

_dotresize_cuda_part(cudart cuda_runtime cuda_runtime_api.h libcudart.so.${_cuda_major})
_dotresize_cuda_part(nvrtc cuda_nvrtc nvrtc.h libnvrtc.so.${_cuda_major})
_dotresize_cuda_part(nccl nccl nccl.h libnccl.so.2)
if(_missing)
  list(JOIN _missing ", " missing)
  message(FATAL_ERROR
    "libtorch in '${_libtorch_dir}' is built for CUDA ${_cuda_major}, and these are missing: ${missing}. Install torch's nvidia wheels beside it, "
    "pass -DCUDA_ROOT=DIR of a toolkit, or -DDOTRESIZE_WITH_CUDA=OFF to build for the CPU alone")
endif()

set(DOTRESIZE_CUDA ON)
list(JOIN _architectures " " _known)
message(STATUS "CUDA ${_cuda_major} of libtorch, for ${_known}")
add_library(libtorch_cuda INTERFACE IMPORTED GLOBAL)
target_link_libraries(libtorch_cuda INTERFACE
  libtorch cudart -Wl,--push-state,--no-as-needed,-ltorch_cuda,-lc10_cuda,--pop-state)
