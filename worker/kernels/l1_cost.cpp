#include "worker/kernels/l1_cost.h"

#include <ATen/ceil_div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <vector>

#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/l1_cost_tile.h"
#include "worker/kernels/parallel_for_each.h"

// cost[i, j] += Σ_t |x[t, i] − x[t, j]|
//
// A block of tokens is packed into strips of neighbouring channels. A patch of the cost is a few
// strips of rows by a few strips of columns, and consists of tiles. One thread computes a patch,
// one chunk of tokens after the other, so that the patch's strips of a chunk stay in the
// second-level cache. The cost itself is larger than any cache, and is accessed once per block. The
// result does not depend on the assignment of patches to threads.

namespace dotresize {
namespace {

constexpr int64_t kStripWidth = kL1StripWidth;
constexpr int64_t kTokenStep = kL1TokenStep;
constexpr int64_t kBlockTokens = 2048;
constexpr int64_t kChunkTokens = 512;
constexpr int64_t kPatchRows = 3;     // strips
constexpr int64_t kPatchColumns = 6;  // strips
/// Minimum width for patches. Below it a patch is one tile; larger ones would be too few for the
/// threads.
constexpr int64_t kWidthOfPatches = 1024;

/// A block of tokens in strips, and its sums by channel. Channels beyond the last one are zero, and
/// so are the tokens that pad it to a whole step.
struct PackedBlock {
  PackedBlock(int64_t max_tokens, int64_t block_width)
      : width(block_width),
        strips(at::ceil_div(width, kStripWidth)),
        values(at::empty({strips, at::ceil_div(max_tokens, kTokenStep) * kTokenStep, kStripWidth},
                         at::kFloat)),
        sums(at::empty({strips, 2, kStripWidth}, at::kDouble)) {}

  /// Packs strip s of the next `tokens` tokens x [., width].
  void pack(int64_t s, const float* x) {
    const int64_t first = s * kStripWidth;
    const int64_t channels = std::min(kStripWidth, width - first);
    float* packed = values.data_ptr<float>() + s * values.stride(0);
    for (int64_t t = 0; t < tokens; ++t) {
      float* token = packed + t * kStripWidth;
      std::copy_n(x + t * width + first, channels, token);
      std::fill(token + channels, token + kStripWidth, 0.0f);
    }
    std::fill(packed + tokens * kStripWidth, packed + padded_tokens * kStripWidth, 0.0f);
    double* of_strip = sums.data_ptr<double>() + s * sums.stride(0);
    l1_strip_sums(packed, static_cast<size_t>(tokens), of_strip, of_strip + kStripWidth);
  }

  L1Strip strip(int64_t s) const {
    const double* of_strip = sums.const_data_ptr<double>() + s * sums.stride(0);
    return {values.const_data_ptr<float>() + s * values.stride(0), of_strip,
            of_strip + kStripWidth};
  }

  const int64_t width;
  const int64_t strips;
  int64_t tokens = 0;
  int64_t padded_tokens = 0;  ///< `tokens`, up to a whole step
  at::Tensor values;          ///< [strips, tokens, kStripWidth]
  at::Tensor sums;            ///< [strips, 2, kStripWidth]: Σx, Σ|x|
};

/// Strips of rows and of columns, [first, end). Tiles below the diagonal are skipped.
struct Patch {
  int64_t first_row;
  int64_t end_row;
  int64_t first_column;
  int64_t end_column;
};

/// Returns all patches with a tile on or above the diagonal, grouped by columns.
std::vector<Patch> patches_of(const PackedBlock& block) {
  const bool wide = block.width >= kWidthOfPatches;
  const int64_t rows = wide ? kPatchRows : 1;
  const int64_t columns = wide ? kPatchColumns : 1;
  const int64_t strips = block.strips;
  std::vector<Patch> patches;
  for (int64_t column = 0; column < strips; column += columns) {
    const int64_t end_column = std::min(column + columns, strips);
    for (int64_t row = 0; row < end_column; row += rows) {
      patches.push_back({row, std::min(row + rows, strips), column, end_column});
    }
  }
  return patches;
}

void add_patch(const PackedBlock& block, const Patch& patch, double shift, double* cost) {
  alignas(64) double values[kPatchRows * kPatchColumns * kL1TileSize];
  // Calls step(row, column, tile) for each tile on or above the diagonal.
  const auto for_each_tile = [&](const auto& step) {
    double* tile = values;
    for (int64_t row = patch.first_row; row < patch.end_row; ++row) {
      for (int64_t column = std::max(row, patch.first_column); column < patch.end_column;
           ++column, tile += kL1TileSize) {
        step(row, column, tile);
      }
    }
  };
  for_each_tile([](int64_t, int64_t, double* tile) { std::fill_n(tile, kL1TileSize, 0.0); });
  const int64_t tokens = block.padded_tokens;
  for (int64_t first = 0; first < tokens; first += kChunkTokens) {
    const auto count = static_cast<size_t>(std::min(kChunkTokens, tokens - first));
    for_each_tile([&](int64_t row, int64_t column, double* tile) {
      add_l1_maxima(block.strip(row).values + first * kStripWidth,
                    block.strip(column).values + first * kStripWidth, count, tile);
    });
  }
  for_each_tile([&](int64_t row, int64_t column, double* tile) {
    l1_distances_from_maxima(block.strip(row), block.strip(column), static_cast<size_t>(tokens),
                             row == column, tile);
    const int64_t rows = std::min(kStripWidth, block.width - row * kStripWidth);
    const int64_t columns = std::min(kStripWidth, block.width - column * kStripWidth);
    add_l1_tile(tile, static_cast<size_t>(rows), static_cast<size_t>(columns), shift,
                cost + (row * block.width + column) * kStripWidth,
                static_cast<size_t>(block.width));
  });
}

constexpr int64_t kMirrorRows = 32;

}  // namespace

void add_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift) {
  if (x.is_cuda()) {
    at::Tensor sums = shift == 0.0 ? cost : at::zeros_like(cost);
    cuda_kernels().add_l1_cost(x, sums);
    if (shift != 0.0) cost.add_(sums.add_(shift).sub_(shift));
    return;
  }
  TORCH_CHECK(x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_contiguous() && x.is_cpu(),
              "l1 cost: x must be a contiguous float32 matrix on the CPU, not ", x.sizes(), " ",
              x.scalar_type(), " on ", x.device());
  TORCH_CHECK(cost.dim() == 2 && cost.size(0) == x.size(1) && cost.size(1) == x.size(1) &&
                  cost.scalar_type() == at::kDouble && cost.is_contiguous() && cost.is_cpu(),
              "l1 cost: the cost of ", x.size(1), " channels must be contiguous, float64, square ",
              "and on the CPU, not ", cost.sizes(), " ", cost.scalar_type(), " on ", cost.device());
  const int64_t tokens = x.size(0);
  const int64_t width = x.size(1);
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  PackedBlock block(std::min(tokens, kBlockTokens), width);
  const std::vector<Patch> patches = patches_of(block);

  for (int64_t first = 0; first < tokens; first += kBlockTokens) {
    block.tokens = std::min(kBlockTokens, tokens - first);
    block.padded_tokens = at::ceil_div(block.tokens, kTokenStep) * kTokenStep;
    parallel_for_each(block.strips, [&](int64_t s) { block.pack(s, values + first * width); });
    parallel_for_each(static_cast<int64_t>(patches.size()), [&](int64_t n) {
      add_patch(block, patches[static_cast<size_t>(n)], shift, sums);
    });
  }
}

void mirror_upper_triangle(at::Tensor& matrix) {
  TORCH_CHECK(matrix.dim() == 2 && matrix.size(0) == matrix.size(1) &&
                  matrix.scalar_type() == at::kDouble && matrix.is_contiguous(),
              "only a contiguous square float64 matrix can be mirrored, not ", matrix.sizes(), " ",
              matrix.scalar_type());
  if (matrix.is_cuda()) return cuda_kernels().mirror_upper_triangle(matrix);
  const int64_t width = matrix.size(0);
  double* values = matrix.data_ptr<double>();
  // Rows [first, first + kMirrorRows) below the diagonal come from the columns of the same indices.
  parallel_for_each(at::ceil_div(width, kMirrorRows), [&](int64_t n) {
    const int64_t first = n * kMirrorRows;
    const int64_t end = std::min(first + kMirrorRows, width);
    for (int64_t column = 0; column < end; column += kMirrorRows) {
      for (int64_t j = first; j < end; ++j) {
        const int64_t column_end = std::min(column + kMirrorRows, j);
        for (int64_t i = column; i < column_end; ++i) values[j * width + i] = values[i * width + j];
      }
    }
  });
}

}  // namespace dotresize
