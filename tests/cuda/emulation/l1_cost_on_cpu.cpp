#include "tests/cuda/emulation/l1_cost_on_cpu.h"

#include <ATen/ATen.h>

#include <limits>

#include "tests/cuda/emulation/cuda_emulation.h"
#include "worker/cuda/l1_cost.cu"

namespace dotresize {
namespace {

unsigned int across(int width, int tile) {
  return static_cast<unsigned int>((width + tile - 1) / tile);
}

}  // namespace

void emulated_l1_cost(const at::Tensor& x, at::Tensor& cost) {
  const at::Tensor largest = at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());
  const auto tokens = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(x.size(1));
  const unsigned int tiles = across(width, TILE);
  cuda_emulation::launch({tiles * (tiles + 1) / 2}, {THREADS}, [&] {
    l1_cost(x.const_data_ptr<float>(), largest.const_data_ptr<float>(), cost.data_ptr<double>(),
            tokens, width);
  });
}

void emulated_mirror(at::Tensor& matrix) {
  const auto width = static_cast<int>(matrix.size(0));
  const unsigned int mirrors = across(width, MIRROR);
  cuda_emulation::launch({mirrors, mirrors}, {MIRROR, 8},
                         [&] { mirror_upper_triangle(matrix.data_ptr<double>(), width); });
}

}  // namespace dotresize
