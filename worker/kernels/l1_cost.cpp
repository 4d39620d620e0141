#include "worker/kernels/l1_cost.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost_tile.h"

// cost[i, j] += Σ_t |x[t, i] − x[t, j]|
//
// A block of tokens is packed into panels of neighbouring channels; each pair of panels p <= q is a
// tile of the cost. Tiles below the diagonal are mirrored at the end. One thread computes a tile,
// and its tokens in order: the result does not depend on how tiles are shared out.

namespace dotresize {
namespace {

constexpr int64_t kPanelWidth = kL1PanelWidth;
constexpr int64_t kBlockTokens = 512;  // summed in float32 before they go to float64

struct Block {
  const float* panels;  ///< [number of panels, tokens, kPanelWidth]
  int64_t tokens;

  const float* panel(int64_t p) const { return panels + p * tokens * kPanelWidth; }
};

/// Channels beyond the last one are zero.
void pack_panel(const float* x, int64_t tokens, int64_t width, int64_t p, float* panel) {
  const int64_t first = p * kPanelWidth;
  const int64_t channels = std::min(kPanelWidth, width - first);
  for (int64_t t = 0; t < tokens; ++t) {
    float* packed = panel + t * kPanelWidth;
    std::copy_n(x + t * width + first, channels, packed);
    std::fill(packed + channels, packed + kPanelWidth, 0.0f);
  }
}

/// Tile number n of the upper triangle, column by column: (0,0), (0,1), (1,1), (0,2), ...
struct TileIndex {
  int64_t p, q;

  static TileIndex of(int64_t n) {
    auto q = static_cast<int64_t>((std::sqrt(8.0 * static_cast<double>(n) + 1.0) - 1.0) / 2.0);
    while (q * (q + 1) / 2 > n) --q;
    while ((q + 1) * (q + 2) / 2 <= n) ++q;
    return {n - q * (q + 1) / 2, q};
  }
};

void add_tile(const Block& block, TileIndex index, int64_t width, double* cost) {
  alignas(64) float tile[kPanelWidth * kPanelWidth];
  l1_cost_tile(block.panel(index.p), block.panel(index.q), static_cast<size_t>(block.tokens), tile);
  const int64_t first_row = index.p * kPanelWidth;
  const int64_t first_column = index.q * kPanelWidth;
  const int64_t rows = std::min(kPanelWidth, width - first_row);
  const int64_t columns = std::min(kPanelWidth, width - first_column);
  for (int64_t r = 0; r < rows; ++r) {
    double* sums = cost + (first_row + r) * width + first_column;
    for (int64_t c = 0; c < columns; ++c) sums[c] += tile[r * kPanelWidth + c];
  }
}

void mirror_tile(TileIndex index, int64_t width, double* cost) {
  const int64_t last_row = std::min((index.p + 1) * kPanelWidth, width);
  const int64_t last_column = std::min((index.q + 1) * kPanelWidth, width);
  for (int64_t j = index.q * kPanelWidth; j < last_column; ++j) {
    for (int64_t i = index.p * kPanelWidth; i < std::min(last_row, j); ++i) {
      cost[j * width + i] = cost[i * width + j];
    }
  }
}

template <class Function>
void parallel_for_each(int64_t count, const Function& function) {
  at::parallel_for(0, count, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) function(n);
  });
}

void check(const at::Tensor& x, const at::Tensor& cost) {
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_contiguous() && x.is_cpu(),
              "l1 cost: x must be a contiguous float32 matrix on the CPU, not ", x.sizes(), " ",
              x.scalar_type(), " on ", x.device());
  TORCH_CHECK(cost.dim() == 2 && cost.size(0) == x.size(1) && cost.size(1) == x.size(1) &&
                  cost.scalar_type() == at::kDouble && cost.is_contiguous() && cost.is_cpu(),
              "l1 cost: the cost of ", x.size(1), " channels must be contiguous, float64, square ",
              "and on the CPU, not ", cost.sizes(), " ", cost.scalar_type(), " on ", cost.device());
}

}  // namespace

void add_l1_cost(const at::Tensor& x, at::Tensor& cost) {
  if (x.is_cuda()) return cuda_kernels().add_l1_cost(x, cost);
  check(x, cost);
  const int64_t tokens = x.size(0);
  const int64_t width = x.size(1);
  const int64_t panels = (width + kPanelWidth - 1) / kPanelWidth;
  const int64_t tiles = panels * (panels + 1) / 2;
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  const at::Tensor packed =
      at::empty({panels, std::min(tokens, kBlockTokens), kPanelWidth}, x.options());
  float* packed_values = packed.data_ptr<float>();

  for (int64_t first = 0; first < tokens; first += kBlockTokens) {
    const Block block{packed_values, std::min(kBlockTokens, tokens - first)};
    parallel_for_each(panels, [&](int64_t p) {
      pack_panel(values + first * width, block.tokens, width, p,
                 packed_values + p * block.tokens * kPanelWidth);
    });
    parallel_for_each(tiles, [&](int64_t n) { add_tile(block, TileIndex::of(n), width, sums); });
  }
  parallel_for_each(tiles, [&](int64_t n) { mirror_tile(TileIndex::of(n), width, sums); });
}

}  // namespace dotresize
