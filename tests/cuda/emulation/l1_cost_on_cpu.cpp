#include "tests/cuda/emulation/l1_cost_on_cpu.h"

#include <ATen/ATen.h>

#include "tests/cuda/emulation/cuda_emulation.h"
#include "tests/cuda/emulation/half2_emulation.h"
#include "worker/cuda/l1_cost.cu"

namespace dotresize {
namespace {

unsigned int across(int width, int tile) {
  return static_cast<unsigned int>((width + tile - 1) / tile);
}

/// Runs kernel(sums, tokens, width) on the blocks of the upper triangle.
template <class Kernel>
void launch(const at::Tensor& x, at::Tensor& cost, const Kernel& kernel) {
  double* sums = cost.data_ptr<double>();
  const auto tokens = static_cast<int>(x.size(0));
  const auto width = static_cast<int>(cost.size(0));
  const unsigned int tiles = across(width, TILE);
  cuda_emulation::launch({tiles * (tiles + 1) / 2}, {THREADS},
                         [&] { kernel(sums, tokens, width); });
}

}  // namespace

void emulated_l1_cost(const at::Tensor& x, at::Tensor& cost) {
  launch(x, cost, [&](double* sums, int tokens, int width) {
    l1_cost_float(x.const_data_ptr<float>(), sums, tokens, width);
  });
}

void emulated_half_l1_cost(const at::Tensor& x, double unit, at::Tensor& cost) {
  const at::Tensor pairs = x.size(1) % 2 == 0 ? x : at::constant_pad_nd(x, {0, 1});
  const auto stride = static_cast<int>(pairs.size(1) / 2);
  launch(x, cost, [&](double* sums, int tokens, int width) {
    l1_cost_half(static_cast<const Half2*>(pairs.const_data_ptr()), sums, tokens, width, stride,
                 unit);
  });
}

void emulated_mirror(at::Tensor& matrix) {
  const auto width = static_cast<int>(matrix.size(0));
  const unsigned int mirrors = across(width, MIRROR);
  cuda_emulation::launch({mirrors, mirrors}, {MIRROR, 8},
                         [&] { mirror_upper_triangle(matrix.data_ptr<double>(), width); });
}

}  // namespace dotresize
