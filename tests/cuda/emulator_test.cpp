// Tests of the emulator itself: kernels with a fault that a GPU may or may not show.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/cuda/emulation/cuda_emulation.h"

namespace {

constexpr unsigned int kThreads = 64;
constexpr unsigned int kRounds = 8;

/// Each thread passes its number to its neighbour kRounds times. `barriers` false leaves out the
/// barriers that this needs.
void rotate(std::array<double, kThreads>& result, bool barriers) {
  __shared__ double values[kThreads];
  double mine = threadIdx.x;
  for (unsigned int round = 0; round < kRounds; ++round) {
    values[threadIdx.x] = mine;
    if (barriers) __syncthreads();
    mine = values[(threadIdx.x + kThreads - 1) % kThreads];
    __syncthreads();
  }
  result[threadIdx.x] = mine;
}

/// Reads a value that no thread has written.
void read_unwritten(double& result) {
  __shared__ double value;
  result = value;
}

bool is_rotated(bool barriers) {
  std::array<double, kThreads> result{};
  cuda_emulation::launch({1}, {kThreads}, [&] { rotate(result, barriers); });
  for (unsigned int thread = 0; thread < kThreads; ++thread) {
    if (result[thread] != (thread + kThreads - kRounds) % kThreads) return false;
  }
  return true;
}

TEST(Emulator, MissingBarrierChangesTheResult) {
  EXPECT_TRUE(is_rotated(true));
  EXPECT_FALSE(is_rotated(false));
}

/// Earlier neighbours have written in only one thread order. An emulator with a fixed order would
/// miss the fault.
TEST(Emulator, MissingBarrierIsSeenInAnyDirection) {
  for (const bool forward : {true, false}) {
    int wrong = 0;
    for (int block = 0; block < 20; ++block) {
      std::array<double, kThreads> result{};
      cuda_emulation::launch({1}, {kThreads}, [&] {
        __shared__ double values[kThreads];
        values[threadIdx.x] = 1;
        const bool end = threadIdx.x == (forward ? 0 : kThreads - 1);
        const unsigned int neighbour = forward ? threadIdx.x - 1 : threadIdx.x + 1;
        result[threadIdx.x] = end ? 1 : values[neighbour];
      });
      for (const double one : result) wrong += one != 1 ? 1 : 0;
    }
    EXPECT_GT(wrong, 0) << forward;
  }
}

TEST(Emulator, SharedMemoryIsNotZero) {
  double result = 0;
  cuda_emulation::launch({1}, {1}, [&] { read_unwritten(result); });
  EXPECT_TRUE(std::isnan(result));
}

TEST(Emulator, BarrierThatSomeThreadsMissIsAnError) {
  const auto launch = [] {
    cuda_emulation::launch({1}, {kThreads}, [] {
      if (threadIdx.x < kThreads / 2) __syncthreads();
    });
  };
  EXPECT_THROW(launch(), std::logic_error);
}

}  // namespace
