#include "worker/kernels/cuda_kernels.h"

#include <stdexcept>

namespace dotresize {
namespace {

CudaKernels kernels_of_process;

}  // namespace

void set_cuda_kernels(const CudaKernels& kernels) { kernels_of_process = kernels; }

const CudaKernels& cuda_kernels() {
  if (kernels_of_process.add_l1_cost == nullptr) {
    throw std::logic_error("a tensor is on a GPU, but the CUDA module was not opened");
  }
  return kernels_of_process;
}

}  // namespace dotresize
