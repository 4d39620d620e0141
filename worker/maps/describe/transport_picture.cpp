#include "worker/maps/describe/transport_picture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace dotresize {
namespace {

constexpr double kRounding = 1e6;

double rounded(double value) { return std::round(value * kRounding) / kRounding; }

int64_t blocks(int64_t channels, int64_t block) { return (channels + block - 1) / block; }

/// Returns the smallest block with which the picture has at most kMaxRows rows.
int64_t block_size(int64_t d, int64_t k) {
  int64_t block = blocks(d, TransportPicture::kMaxRows);
  while (blocks(k, block) + blocks(d - k, block) > TransportPicture::kMaxRows) ++block;
  return block;
}

/// Returns the channels outside the support, ordered by the column that takes most of their mass,
/// then by channel.
at::Tensor merged_channels(const at::Tensor& T, const at::Tensor& support) {
  at::Tensor is_merged = at::ones({T.size(0)}, support.options().dtype(at::kBool));
  is_merged.index_fill_(0, support, false);
  const at::Tensor channels = is_merged.nonzero().squeeze(1);
  const at::Tensor targets = T.argmax(1).index_select(0, channels);
  return channels.index_select(
      0, std::get<1>(targets.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false)));
}

/// Appends the mass of each block of columns.
void append_cells(const at::Tensor& rows, int64_t block, std::vector<double>& cells) {
  const at::Tensor columns = rows.sum(0).cpu();
  const auto masses = columns.accessor<double, 1>();
  for (int64_t first = 0; first < masses.size(0); first += block) {
    double cell = 0.0;
    for (int64_t j = first; j < std::min(first + block, masses.size(0)); ++j) cell += masses[j];
    cells.push_back(cell);
  }
}

/// Returns the sum over rows of exp(entropy) of the row's shares.
double targets_of(const at::Tensor& rows) {
  const at::Tensor sums = rows.sum(1, /*keepdim=*/true);
  const at::Tensor shares = rows / sums.clamp_min(std::numeric_limits<double>::min());
  return at::special_entr(shares).sum(1).exp().sum().item<double>();
}

/// Appends the rows of these channels to the picture's cells, and returns the mean of targets_of()
/// per channel.
double append_rows(const at::Tensor& T, const at::Tensor& channels, int64_t block,
                   std::vector<double>& cells) {
  double targets = 0.0;
  for (int64_t first = 0; first < channels.size(0); first += block) {
    const int64_t count = std::min(block, channels.size(0) - first);
    const at::Tensor rows = T.index_select(0, channels.narrow(0, first, count));
    append_cells(rows, block, cells);
    targets += targets_of(rows);
  }
  return rounded(targets / static_cast<double>(channels.size(0)));
}

/// Returns the fraction of the support's mass that stays at its own channel.
double fraction_that_stays(const at::Tensor& T, const at::Tensor& support,
                           const std::vector<double>& cells_of_support) {
  const int64_t k = support.size(0);
  const at::Tensor diagonal = T.take(support * k + at::arange(k, support.options()));
  double mass = 0.0;
  for (const double cell : cells_of_support) mass += cell;
  return rounded(diagonal.sum().item<double>() / mass);
}

}  // namespace

TransportPicture transport_picture(const at::Tensor& T, const at::Tensor& support) {
  TORCH_CHECK(
      T.dim() == 2 && T.scalar_type() == at::kDouble && support.dim() == 1 &&
          support.size(0) == T.size(1) && T.size(1) > 0 && T.size(1) <= T.size(0),
      "a transport plan must be float64 with a column for each channel of the support, not ",
      T.sizes(), " ", T.scalar_type(), " for ", support.sizes());
  const int64_t d = T.size(0);
  const int64_t k = T.size(1);
  TransportPicture picture;
  picture.block = block_size(d, k);
  picture.columns = blocks(k, picture.block);
  picture.rows = picture.columns + blocks(d - k, picture.block);
  std::vector<double> cells;
  picture.kept_targets = append_rows(T, support, picture.block, cells);
  picture.stays = fraction_that_stays(T, support, cells);
  if (d > k) {
    picture.merged_targets = append_rows(T, merged_channels(T, support), picture.block, cells);
  }
  picture.largest = *std::ranges::max_element(cells);
  picture.levels.reserve(cells.size());
  for (const double cell : cells) {
    picture.levels.push_back(level_of_mass(cell, picture.largest));
  }
  return picture;
}

}  // namespace dotresize
