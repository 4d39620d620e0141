#pragma once

// Runs the source of a CUDA kernel on the CPU: include this, then the .cu file. The threads of a
// block are fibers that run in turns, from one barrier to the next; blocks run one after another.
// What it shows: that indices, bounds, barriers and arithmetic are right. What it cannot show:
// races within a warp, and speed.

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

struct Dim3 {
  unsigned int x = 1, y = 1, z = 1;
};

inline Dim3 threadIdx, blockIdx, blockDim, gridDim;

struct float4 {
  float x, y, z, w;
};
struct uint4 {
  unsigned int x, y, z, w;
};

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

namespace cuda_emulation {

/// The fibers of one block.
class Block {
 public:
  static Block*& current() {
    static Block* block = nullptr;
    return block;
  }

  Block(Dim3 size, const std::function<void()>& kernel)
      : kernel_(kernel), fibers_(size.x * size.y) {
    current() = this;
    blockDim = size;
    for (Fiber& fiber : fibers_) {
      getcontext(&fiber.context);
      fiber.stack.resize(kStackBytes);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    for (bool running = true; running;) {
      running = false;
      for (running_ = 0; running_ < fibers_.size(); ++running_) {
        if (fibers_[running_].done) continue;
        threadIdx = {static_cast<unsigned int>(running_) % size.x,
                     static_cast<unsigned int>(running_) / size.x, 0};
        swapcontext(&scheduler_, &fibers_[running_].context);
        running = running || !fibers_[running_].done;
      }
    }
  }

  void barrier() {
    const Dim3 thread = threadIdx;
    swapcontext(&fibers_[running_].context, &scheduler_);
    threadIdx = thread;
  }

 private:
  static constexpr size_t kStackBytes = 64 * 1024;
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
  };

  static void enter() {
    Block& block = *current();
    block.kernel_();
    block.fibers_[block.running_].done = true;
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
  size_t running_ = 0;
};

/// kernel<<<grid, block>>>.
inline void launch(Dim3 grid, Dim3 block, const std::function<void()>& kernel) {
  gridDim = grid;
  for (unsigned int y = 0; y < grid.y; ++y) {
    for (unsigned int x = 0; x < grid.x; ++x) {
      blockIdx = {x, y, 0};
      Block(block, kernel);
    }
  }
}

}  // namespace cuda_emulation

inline void __syncthreads() { cuda_emulation::Block::current()->barrier(); }

inline double __shfl_xor_sync(unsigned int, double value, int offset) {
  static double values[1024];
  values[threadIdx.x] = value;
  __syncthreads();
  const double other = values[threadIdx.x ^ static_cast<unsigned int>(offset)];
  __syncthreads();
  return other;
}

template <class T>
T __ldcs(const T* pointer) {
  return *pointer;
}

using std::fabs;
using std::min;
