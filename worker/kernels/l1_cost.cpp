#include "worker/kernels/l1_cost.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// A block of tokens in strips, and its sums by channel. Channels beyond the last one are zero, and
/// so are the tokens that pad it to a whole step.
class PackedBlock {
 public:
  PackedBlock(int64_t max_tokens, int64_t width)
      : width_(width),
        max_tokens_(divide_up(max_tokens, kTokenStep) * kTokenStep),
        values_(at::empty({strips(), max_tokens_, kStripWidth}, at::kFloat)),
        sums_(at::empty({strips(), 2, kStripWidth}, at::kDouble)) {}

  int64_t width() const { return width_; }
  int64_t strips() const { return divide_up(width_, kStripWidth); }

  /// Starts the block of the next `tokens` tokens of x [., width].
  void start(const float* x, int64_t tokens) {
    x_ = x;
    tokens_ = tokens;
  }
  int64_t padded_tokens() const { return divide_up(tokens_, kTokenStep) * kTokenStep; }

  void pack(int64_t s) {
    const int64_t first = s * kStripWidth;
    const int64_t channels = std::min(kStripWidth, width_ - first);
    float* values = strip_values(s);
    for (int64_t t = 0; t < tokens_; ++t) {
      float* packed = values + t * kStripWidth;
      std::copy_n(x_ + t * width_ + first, channels, packed);
      std::fill(packed + channels, packed + kStripWidth, 0.0f);
    }
    std::fill(values + tokens_ * kStripWidth, values + padded_tokens() * kStripWidth, 0.0f);
    double* sums = strip_sums(s);
    l1_strip_sums(values, static_cast<size_t>(tokens_), sums, sums + kStripWidth);
  }

  L1Strip strip(int64_t s) const {
    return {strip_values(s), strip_sums(s), strip_sums(s) + kStripWidth};
  }

 private:
  float* strip_values(int64_t s) const {
    return values_.data_ptr<float>() + s * max_tokens_ * kStripWidth;
  }
  double* strip_sums(int64_t s) const { return sums_.data_ptr<double>() + s * 2 * kStripWidth; }

  int64_t width_;
  int64_t max_tokens_;
  at::Tensor values_;  // [strips, tokens, kStripWidth]
  at::Tensor sums_;    // [strips, 2, kStripWidth]: Σx, Σ|x|
  const float* x_ = nullptr;
  int64_t tokens_ = 0;
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
  const bool wide = block.width() >= kWidthOfPatches;
  const int64_t rows = wide ? kPatchRows : 1;
  const int64_t columns = wide ? kPatchColumns : 1;
  const int64_t strips = block.strips();
  std::vector<Patch> patches;
  for (int64_t column = 0; column < strips; column += columns) {
    const int64_t end_column = std::min(column + columns, strips);
    for (int64_t row = 0; row < end_column; row += rows) {
      patches.push_back({row, std::min(row + rows, strips), column, end_column});
    }
  }
  return patches;
}

/// Storage for the tiles of a patch, in the order of for_each.
class PatchTiles {
 public:
  explicit PatchTiles(const Patch& patch) : patch_(patch) {}

  /// Calls step(row, column, tile) for each tile on or above the diagonal.
  template <class Step>
  void for_each(const Step& step) {
    double* tile = values_;
    for (int64_t row = patch_.first_row; row < patch_.end_row; ++row) {
      for (int64_t column = std::max(row, patch_.first_column); column < patch_.end_column;
           ++column, tile += kL1TileSize) {
        step(row, column, tile);
      }
    }
  }

 private:
  Patch patch_;
  alignas(64) double values_[kPatchRows * kPatchColumns * kL1TileSize];
};

void add_patch(const PackedBlock& block, const Patch& patch, double shift, double* cost) {
  const int64_t tokens = block.padded_tokens();
  PatchTiles tiles(patch);
  tiles.for_each([](int64_t, int64_t, double* tile) { std::fill_n(tile, kL1TileSize, 0.0); });
  for (int64_t first = 0; first < tokens; first += kChunkTokens) {
    const auto count = static_cast<size_t>(std::min(kChunkTokens, tokens - first));
    tiles.for_each([&](int64_t row, int64_t column, double* tile) {
      add_l1_maxima(block.strip(row).values + first * kStripWidth,
                    block.strip(column).values + first * kStripWidth, count, tile);
    });
  }
  const int64_t width = block.width();
  tiles.for_each([&](int64_t row, int64_t column, double* tile) {
    l1_distances_from_maxima(block.strip(row), block.strip(column), static_cast<size_t>(tokens),
                             row == column, tile);
    const int64_t rows = std::min(kStripWidth, width - row * kStripWidth);
    const int64_t columns = std::min(kStripWidth, width - column * kStripWidth);
    add_l1_tile(tile, static_cast<size_t>(rows), static_cast<size_t>(columns), shift,
                cost + (row * width + column) * kStripWidth, static_cast<size_t>(width));
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

/// Adds to `total` the sums that add(sums) adds to zeros, rounded with `shift` as in add_l1_cost.
/// Needs another matrix like `total`, unless shift is 0.
template <class Add>
void add_rounded(at::Tensor& total, double shift, const Add& add) {
  if (shift == 0.0) return add(total);
  at::Tensor sums = at::zeros_like(total);
  add(sums);
  total.add_(sums.add_(shift).sub_(shift));
}

constexpr int64_t kSampleTokens = 512;
/// Largest magnitude for float16: differences reach twice as much, and eight of them are summed.
constexpr double kMaxMagnitude = 4094.0;
constexpr int kMaxExponent = 126;  // keeps 2^s a normal float32 number

/// Returns the largest s with |x| 2^s <= kMaxMagnitude for all of x; 0 if all values are zero or
/// one is not finite.
int scale_exponent(const at::Tensor& x) {
  const double largest =
      at::linalg_vector_norm(x, std::numeric_limits<double>::infinity()).item<double>();
  if (!(largest > 0.0) || !std::isfinite(largest)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  int scale = 12 - exponent;  // scales to 2048 .. 4096
  if (std::ldexp(largest, scale) > kMaxMagnitude) --scale;
  return std::clamp(scale, -kMaxExponent, kMaxExponent);
}

constexpr int64_t kMirrorRows = 32;

/// Fills rows [first, first + kMirrorRows) below the diagonal from the columns of the same indices.
void mirror_rows(double* matrix, int64_t width, int64_t first) {
  const int64_t end = std::min(first + kMirrorRows, width);
  for (int64_t column = 0; column < end; column += kMirrorRows) {
    for (int64_t j = first; j < end; ++j) {
      const int64_t column_end = std::min(column + kMirrorRows, j);
      for (int64_t i = column; i < column_end; ++i) matrix[j * width + i] = matrix[i * width + j];
    }
  }
}

}  // namespace

void add_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift) {
  if (x.is_cuda()) {
    return add_rounded(cost, shift, [&](at::Tensor& sums) { cuda_kernels().add_l1_cost(x, sums); });
  }
  check(x, cost);
  const int64_t tokens = x.size(0);
  const int64_t width = x.size(1);
  const float* values = x.const_data_ptr<float>();
  double* sums = cost.data_ptr<double>();
  PackedBlock block(std::min(tokens, kBlockTokens), width);
  const std::vector<Patch> patches = patches_of(block);

  for (int64_t first = 0; first < tokens; first += kBlockTokens) {
    block.start(values + first * width, std::min(kBlockTokens, tokens - first));
    parallel_for_each(block.strips(), [&](int64_t s) { block.pack(s); });
    parallel_for_each(static_cast<int64_t>(patches.size()), [&](int64_t n) {
      add_patch(block, patches[static_cast<size_t>(n)], shift, sums);
    });
  }
}

void add_half_l1_cost(const at::Tensor& x, at::Tensor& cost, double shift) {
  if (x.numel() == 0) return;
  const int scale = scale_exponent(x);
  const at::Tensor scaled = at::mul(x, std::ldexp(1.0, scale)).to(at::kHalf);
  const double unit = std::ldexp(1.0, -scale);
  add_rounded(cost, shift,
              [&](at::Tensor& sums) { cuda_kernels().add_half_l1_cost(scaled, unit, sums); });
}

double half_l1_cost_error(const at::Tensor& x) {
  const at::Tensor sample = x.narrow(0, 0, std::min(kSampleTokens, x.size(0)));
  at::Tensor exact = at::zeros({x.size(1), x.size(1)}, x.options().dtype(at::kDouble));
  at::Tensor half = at::zeros_like(exact);
  add_l1_cost(sample, exact);
  add_half_l1_cost(sample, half);
  half.sub_(exact).abs_().div_(exact.clamp_min_(std::numeric_limits<double>::min()));
  return half.triu_(/*diagonal=*/1).max().item<double>();
}

void mirror_upper_triangle(at::Tensor& matrix) {
  TORCH_CHECK(matrix.dim() == 2 && matrix.size(0) == matrix.size(1) &&
                  matrix.scalar_type() == at::kDouble && matrix.is_contiguous(),
              "only a contiguous square float64 matrix can be mirrored, not ", matrix.sizes(), " ",
              matrix.scalar_type());
  if (matrix.is_cuda()) return cuda_kernels().mirror_upper_triangle(matrix);
  const int64_t width = matrix.size(0);
  double* values = matrix.data_ptr<double>();
  parallel_for_each(divide_up(width, kMirrorRows),
                    [&](int64_t n) { mirror_rows(values, width, n * kMirrorRows); });
}

}  // namespace dotresize
