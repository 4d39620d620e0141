#pragma once

// Runs the source of a CUDA kernel on the CPU: include this file, then the .cu file. The threads of
// a block are fibers that take turns from one barrier to the next, each time in another order:
// forward, backward or at random, the same in every run. Blocks run one after another. Shared
// memory is NaN at the beginning of each block. It is an error if threads of a block end at
// different barriers. The emulation checks indices, bounds, barriers and arithmetic. It cannot show
// races within a warp, or speed.

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
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
#define __shared__ static __attribute__((section("emulated_shared_memory")))
#define __launch_bounds__(...)

// Symbols of the linker: bounds of the program's shared memory.
extern "C" __attribute__((weak)) char __start_emulated_shared_memory[];
extern "C" __attribute__((weak)) char __stop_emulated_shared_memory[];

namespace cuda_emulation {

/// Sets all bits, which is NaN in any floating-point type.
inline void poison_shared_memory() {
  if (__start_emulated_shared_memory == nullptr) return;
  const auto size = __stop_emulated_shared_memory - __start_emulated_shared_memory;
  std::memset(__start_emulated_shared_memory, 0xff, static_cast<size_t>(size));
}

/// Orders the threads forward, backward or at random.
inline void change_order(std::vector<size_t>& threads) {
  static std::mt19937 random(1);
  std::iota(threads.begin(), threads.end(), size_t{0});
  const auto way = random() % 3;
  if (way == 1) std::reverse(threads.begin(), threads.end());
  if (way == 2) std::shuffle(threads.begin(), threads.end(), random);
}

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
    poison_shared_memory();
    blockDim = size;
    for (Fiber& fiber : fibers_) {
      getcontext(&fiber.context);
      fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::enter, 0);
    }
    std::vector<size_t> order(fibers_.size());
    size_t done = 0;
    for (int barriers = 0; done == 0; ++barriers) {
      change_order(order);
      for (const size_t thread : order) {
        running_ = thread;
        threadIdx = {static_cast<unsigned int>(thread) % size.x,
                     static_cast<unsigned int>(thread) / size.x, 0};
        swapcontext(&scheduler_, &fibers_[thread].context);
        if (fibers_[thread].done) ++done;
      }
      if (done != 0 && done != fibers_.size()) {
        throw std::logic_error(std::to_string(done) + " of " + std::to_string(fibers_.size()) +
                               " threads of a block end after " + std::to_string(barriers) +
                               " barriers, the others wait at one more");
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
    std::unique_ptr<char[]> stack;
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

/// Stands for kernel<<<grid, block>>>.
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
  const unsigned int thread = threadIdx.y * blockDim.x + threadIdx.x;
  values[thread] = value;
  __syncthreads();
  const double other = values[thread ^ static_cast<unsigned int>(offset)];
  __syncthreads();
  return other;
}

template <class T>
T __ldcs(const T* pointer) {
  return *pointer;
}

inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }

using std::fabs;
using std::min;
using std::sqrt;
