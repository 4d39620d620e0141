# The CUDA half of libtorch, if it has one: DOTRESIZE_CUDA, and the imported targets
#   libtorch_cuda  ATen on CUDA devices, and the CUDA runtime
#   nvrtc, nccl    of the CUDA version that libtorch was built with
# CUDA's own libraries come from the wheels beside torch/ (nvidia/*/), else from -DCUDA_ROOT=DIR, a toolkit.
# Programs do not link any of this: the worker opens a module that does (worker/device/), since loading it costs
# more than a second.
set(CUDA_ROOT "" CACHE PATH "CUDA toolkit with include/ and lib64/ (default: the wheels beside libtorch)")

function(_dotresize_cuda_part target component header library)
  file(GLOB candidates ${_libtorch_dir}/../nvidia/${component} ${CUDA_ROOT})
  find_path(${target}_INCLUDE ${header} HINTS ${candidates} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_library(${target}_LIBRARY NAMES ${library} HINTS ${candidates} PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  if(NOT ${target}_INCLUDE OR NOT ${target}_LIBRARY)
    return()
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  get_filename_component(folder ${${target}_LIBRARY} DIRECTORY)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  target_link_options(${target} INTERFACE -Wl,-rpath,${folder})
endfunction()

_dotresize_cuda_part(cudart cuda_runtime cuda_runtime_api.h libcudart.so.12)
_dotresize_cuda_part(nvrtc cuda_nvrtc nvrtc.h libnvrtc.so.12)
_dotresize_cuda_part(nccl nccl nccl.h libnccl.so.2)

set(DOTRESIZE_CUDA OFF)
if(TARGET cudart AND TARGET nvrtc AND TARGET nccl AND EXISTS "${_libtorch_dir}/lib/libtorch_cuda.so")
  set(DOTRESIZE_CUDA ON)
  add_library(libtorch_cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(libtorch_cuda INTERFACE
    libtorch cudart -Wl,--push-state,--no-as-needed torch_cuda c10_cuda -Wl,--pop-state)
else()
  message(STATUS "No CUDA in or beside libtorch: 'resources.device: cuda' will be refused")
endif()
