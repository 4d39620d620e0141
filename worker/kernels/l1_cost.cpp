#include "worker/kernels/l1_cost.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost_tile.h"
#include "worker/kernels/parallel_for_each.h"

// cost[i, j] += Σ_t |x[t, i] − x[t, j]|
//
// A block of tokens is packed into panels of neighbouring channels. A tile of the cost is a panel
// of rows by a strip of columns, a third of a panel; tiles below the diagonal are mirrored. One
// thread computes a tile, and its tokens in order: the result does not depend on which one does.

namespace dotresize {
namespace {

constexpr int64_t kPanelWidth = kL1PanelWidth;
constexpr int64_t kStripWidth = kL1StripWidth;
constexpr int64_t kTokenStep = kL1TokenStep;
constexpr int64_t kBlockTokens = 512;
constexpr int64_t kGroupWidth = 2 * kPanelWidth;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A block of tokens in panels, and its sums by channel. Channels beyond the last one are zero, and
/// so are the tokens that make up a whole step.
class PackedBlock {
 public:
  PackedBlock(int64_t max_tokens, int64_t width)
      : width_(width),
        panels_(divide_up(width, kPanelWidth)),
        max_steps_(divide_up(max_tokens, kTokenStep)),
        values_(at::empty({panels_, max_steps_ * kTokenStep, kPanelWidth}, at::kFloat)),
        sums_(at::empty({panels_, 2, kPanelWidth}, at::kDouble)) {}

  int64_t panels() const { return panels_; }

  /// The block of the next `tokens` tokens of x [., width].
  void start(const float* x, int64_t tokens) {
    x_ = x;
    tokens_ = tokens;
  }
  int64_t padded_tokens() const { return divide_up(tokens_, kTokenStep) * kTokenStep; }

  void pack(int64_t p) {
    const int64_t first = p * kPanelWidth;
    const int64_t channels = std::min(kPanelWidth, width_ - first);
    float* panel = panel_values(p);
    for (int64_t t = 0; t < tokens_; ++t) {
      float* packed = panel + t * kPanelWidth;
      std::copy_n(x_ + t * width_ + first, channels, packed);
      std::fill(packed + channels, packed + kPanelWidth, 0.0f);
    }
    std::fill(panel + tokens_ * kPanelWidth, panel + padded_tokens() * kPanelWidth, 0.0f);
    double* sums = panel_sums(p);
    l1_channel_sums(panel, static_cast<size_t>(tokens_), sums, sums + kPanelWidth);
  }

  /// From a channel that starts a strip.
  L1Channels channels(int64_t first) const {
    const int64_t offset = first % kPanelWidth;
    const double* sums = panel_sums(first / kPanelWidth) + offset;
    return {panel_values(first / kPanelWidth) + offset, sums, sums + kPanelWidth};
  }

 private:
  float* panel_values(int64_t p) const {
    return values_.data_ptr<float>() + p * max_steps_ * kTokenStep * kPanelWidth;
  }
  double* panel_sums(int64_t p) const { return sums_.data_ptr<double>() + p * 2 * kPanelWidth; }

  int64_t width_;
  int64_t panels_;
  int64_t max_steps_;
  at::Tensor values_;  // [panels, tokens, kPanelWidth]
  at::Tensor sums_;    // [panels, 2, kPanelWidth]: Σx, Σ|x|
  const float* x_ = nullptr;
  int64_t tokens_ = 0;
};

/// Where a tile lies in the cost. Rows that are wholly below the diagonal do not count.
struct Tile {
  int64_t first_row;
  int64_t first_column;
  int64_t rows;
  int64_t columns;
};

/// All tiles: panel by panel of rows for a few strips of columns, so that all of these stay in the
/// second cache.
std::vector<Tile> tiles_of(int64_t width) {
  std::vector<Tile> tiles;
  for (int64_t group = 0; group < width; group += kGroupWidth) {
    const int64_t group_end = std::min(group + kGroupWidth, width);
    for (int64_t row = 0; row < group_end; row += kPanelWidth) {
      for (int64_t column = group; column < group_end; column += kStripWidth) {
        const int64_t column_end = std::min(column + kStripWidth, width);
        const int64_t rows = std::min(kPanelWidth, column_end - row);
        if (rows > 0) tiles.push_back({row, column, rows, column_end - column});
      }
    }
  }
  return tiles;
}

/// The tile's sums are added above the diagonal, and the total is copied below it where that is
/// wanted.
void add_tile(const PackedBlock& block, const Tile& tile, bool mirrored, int64_t width,
              double* cost) {
  alignas(64) double sums[kPanelWidth * kStripWidth];
  l1_cost_tile(block.channels(tile.first_row), block.channels(tile.first_column),
               static_cast<size_t>(block.padded_tokens()), static_cast<size_t>(tile.rows),
               tile.first_column - tile.first_row, sums);
  add_l1_tile(sums, static_cast<size_t>(tile.rows), static_cast<size_t>(tile.columns),
              cost + tile.first_row * width + tile.first_column, static_cast<size_t>(width));
  if (!mirrored) return;
  for (int64_t c = 0; c < tile.columns; ++c) {
    const int64_t j = tile.first_column + c;
    double* row = cost + j * width + tile.first_row;
    const int64_t end = std::min(tile.rows, j - tile.first_row);
    for (int64_t r = 0; r < end; ++r) row[r] = sums[r * kStripWidth + c];
  }
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
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  const std::vector<Tile> tiles = tiles_of(width);
  PackedBlock block(std::min(tokens, kBlockTokens), width);

  for (int64_t first = 0; first < tokens; first += kBlockTokens) {
    const int64_t count = std::min(kBlockTokens, tokens - first);
    const bool last = first + count == tokens;
    block.start(values + first * width, count);
    parallel_for_each(block.panels(), [&](int64_t p) { block.pack(p); });
    parallel_for_each(static_cast<int64_t>(tiles.size()), [&](int64_t n) {
      add_tile(block, tiles[static_cast<size_t>(n)], last, width, sums);
    });
  }
}

}  // namespace dotresize
