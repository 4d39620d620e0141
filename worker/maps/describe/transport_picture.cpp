#include "worker/maps/describe/transport_picture.h"

#include <ATen/ATen.h>
#include <ATen/ceil_div.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace dotresize {
namespace {

constexpr double kRounding = 1e6;

double rounded(double value) { return std::round(value * kRounding) / kRounding; }

/// Appends the rows of these channels to the picture's cells: the mass of each block of columns.
/// Returns the mean over the channels of exp(entropy) of the row's shares.
double append_rows(const at::Tensor& T, const at::Tensor& channels, int64_t block,
                   std::vector<double>& cells) {
  double targets = 0.0;
  for (int64_t first = 0; first < channels.size(0); first += block) {
    const int64_t count = std::min(block, channels.size(0) - first);
    const at::Tensor rows = T.index_select(0, channels.narrow(0, first, count));
    const at::Tensor columns = rows.sum(0).cpu();
    const auto masses = columns.accessor<double, 1>();
    for (int64_t start = 0; start < masses.size(0); start += block) {
      double cell = 0.0;
      for (int64_t j = start; j < std::min(start + block, masses.size(0)); ++j) cell += masses[j];
      cells.push_back(cell);
    }
    const at::Tensor sums = rows.sum(1, /*keepdim=*/true);
    const at::Tensor shares = rows / sums.clamp_min(std::numeric_limits<double>::min());
    targets += at::special_entr(shares).sum(1).exp().sum().item<double>();
  }
  return rounded(targets / static_cast<double>(channels.size(0)));
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
  // The smallest block with which the picture has at most kMaxRows rows.
  picture.block = at::ceil_div(d, int64_t{TransportPicture::kMaxRows});
  for (;; ++picture.block) {
    picture.columns = at::ceil_div(k, picture.block);
    picture.rows = picture.columns + at::ceil_div(d - k, picture.block);
    if (picture.rows <= TransportPicture::kMaxRows) break;
  }
  std::vector<double> cells;
  picture.kept_targets = append_rows(T, support, picture.block, cells);
  double mass = 0.0;
  for (const double cell : cells) mass += cell;
  const at::Tensor diagonal = T.take(support * k + at::arange(k, support.options()));
  picture.stays = rounded(diagonal.sum().item<double>() / mass);
  if (d > k) {
    // The other channels follow, ordered by the column that takes most of their mass, then by
    // channel.
    at::Tensor is_merged = at::ones({d}, support.options().dtype(at::kBool));
    is_merged.index_fill_(0, support, false);
    const at::Tensor channels = is_merged.nonzero().squeeze(1);
    const at::Tensor targets = T.argmax(1).index_select(0, channels);
    const at::Tensor merged = channels.index_select(
        0, std::get<1>(targets.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false)));
    picture.merged_targets = append_rows(T, merged, picture.block, cells);
  }
  picture.largest = *std::ranges::max_element(cells);
  picture.levels.reserve(cells.size());
  for (const double cell : cells) {
    picture.levels.push_back(level_of_mass(cell, picture.largest));
  }
  return picture;
}

}  // namespace dotresize
