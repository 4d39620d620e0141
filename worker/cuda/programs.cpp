#include "worker/cuda/programs.h"

#include <string>

namespace dotresize {

CudaProgram l1_cost_program() {
  return {"l1_cost.cu", l1_cost_cu(), {{"half2.cuh", half2_cuh()}}, {}};
}

CudaProgram sinkhorn_program(int64_t columns) {
  constexpr int64_t kThreads = 512;  // must equal THREADS of sinkhorn.cu
  const int64_t per_thread = (columns + kThreads - 1) / kThreads;
  return {"sinkhorn.cu", sinkhorn_cu(), {}, {"-DCOLUMNS_PER_THREAD=" + std::to_string(per_thread)}};
}

}  // namespace dotresize
