#include "worker/maps/describe/transport_picture.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace dotresize {
namespace {

/// Returns a plan whose masses span decades.
at::Tensor plan(int64_t d, int64_t k) {
  at::manual_seed(3);
  const at::Tensor masses = at::randn({d, k}, at::kDouble).mul_(3).exp();
  return masses / masses.sum();
}

at::Tensor every_other(int64_t k) { return 2 * at::arange(k); }

/// Inverse of level_of_mass.
double mass_of_level(uint8_t level, double largest) {
  return level == 0 ? 0.0 : largest * std::pow(10.0, (level - 255) / kLevelsPerDecade);
}

/// Returns the channels in the picture's order, by the definition.
std::vector<int64_t> shown_channels(const at::Tensor& T, const std::vector<int64_t>& support) {
  const auto masses = T.accessor<double, 2>();
  const auto target = [&](int64_t channel) {
    int64_t best = 0;
    for (int64_t j = 1; j < T.size(1); ++j) {
      if (masses[channel][j] > masses[channel][best]) best = j;
    }
    return best;
  };
  std::vector<int64_t> others;
  for (int64_t i = 0; i < T.size(0); ++i) {
    if (std::ranges::find(support, i) == support.end()) others.push_back(i);
  }
  std::ranges::stable_sort(others, {}, target);
  std::vector<int64_t> shown = support;
  shown.insert(shown.end(), others.begin(), others.end());
  return shown;
}

/// Returns exp of the entropy of the channel's mass.
double targets_of(const at::Tensor& T, int64_t channel) {
  const at::Tensor shares = T[channel] / T[channel].sum();
  double entropy = 0.0;
  for (int64_t j = 0; j < T.size(1); ++j) {
    const double share = shares[j].item<double>();
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

double total(const TransportPicture& picture) {
  double mass = 0.0;
  for (const uint8_t level : picture.levels) mass += mass_of_level(level, picture.largest);
  return mass;
}

TEST(TransportPicture, HasTheMassOfEachBlock) {
  const int64_t d = 131;
  const int64_t k = 60;
  const at::Tensor T = plan(d, k);
  const TransportPicture picture = transport_picture(T, every_other(k));
  ASSERT_EQ(picture.block, 3);  // blocks of 2 would give 30 + 36 rows
  ASSERT_EQ(picture.columns, 20);
  ASSERT_EQ(picture.rows, 20 + 24);
  ASSERT_EQ(std::ssize(picture.levels), picture.rows * picture.columns);

  std::vector<int64_t> support;
  for (int64_t j = 0; j < k; ++j) support.push_back(2 * j);
  const std::vector<int64_t> shown = shown_channels(T, support);
  std::vector<double> cells(picture.levels.size(), 0.0);
  const auto masses = T.accessor<double, 2>();
  for (int64_t i = 0; i < d; ++i) {
    const int64_t row = i < k ? i / 3 : 20 + (i - k) / 3;
    for (int64_t j = 0; j < k; ++j) {
      cells[static_cast<size_t>(row * 20 + j / 3)] += masses[shown[static_cast<size_t>(i)]][j];
    }
  }
  EXPECT_NEAR(picture.largest, std::ranges::max(cells), 1e-15);
  for (size_t i = 0; i < cells.size(); ++i) {
    const double mass = mass_of_level(picture.levels[i], picture.largest);
    EXPECT_NEAR(mass, cells[i], 0.037 * cells[i]) << i;
  }
  EXPECT_NEAR(total(picture), 1.0, 0.01);
}

TEST(TransportPicture, SaysHowFarMassIsSpreadAndHowMuchStays) {
  const int64_t k = 20;
  const at::Tensor T = plan(47, k);
  const TransportPicture picture = transport_picture(T, every_other(k));
  double diagonal = 0.0;
  double mass = 0.0;
  double targets[2] = {0.0, 0.0};
  for (int64_t i = 0; i < 47; ++i) {
    const bool kept = i % 2 == 0 && i < 2 * k;
    targets[kept ? 0 : 1] += targets_of(T, i);
    if (!kept) continue;
    mass += T[i].sum().item<double>();
    diagonal += T[i][i / 2].item<double>();
  }
  EXPECT_NEAR(picture.stays, diagonal / mass, 1e-6);
  EXPECT_NEAR(picture.kept_targets, targets[0] / 20, 1e-6);
  ASSERT_TRUE(picture.merged_targets);
  EXPECT_NEAR(*picture.merged_targets, targets[1] / 27, 1e-6);
}

TEST(TransportPicture, OfOneToOneIsADiagonal) {
  const TransportPicture picture = transport_picture(at::eye(5, at::kDouble) / 5, at::arange(5));
  EXPECT_EQ(picture.rows, 5);
  EXPECT_EQ(picture.columns, 5);
  EXPECT_EQ(picture.largest, 0.2);
  for (size_t i = 0; i < 25; ++i) EXPECT_EQ(picture.levels[i], i % 6 == 0 ? 255 : 0) << i;
  EXPECT_EQ(picture.stays, 1.0);
  EXPECT_EQ(picture.kept_targets, 1.0);
  EXPECT_EQ(picture.merged_targets, std::nullopt);
}

TEST(TransportPicture, IsSmallAtAnyWidth) {
  using Size = std::pair<int64_t, int64_t>;
  for (const auto& [d, k] : std::vector<Size>{{1, 1}, {64, 63}, {65, 64}, {129, 128}, {900, 899}}) {
    const double mass = 1.0 / static_cast<double>(d * k);
    const TransportPicture picture =
        transport_picture(at::full({d, k}, mass, at::kDouble), at::arange(k));
    EXPECT_LE(picture.rows, TransportPicture::kMaxRows);
    EXPECT_LE(picture.columns, picture.rows);
    EXPECT_GE(picture.rows * picture.block, d);
    EXPECT_NEAR(picture.kept_targets, static_cast<double>(k), 1e-5);
  }
}

TEST(TransportPicture, DoesNotDependOnTheThreads) {
  const int before = at::get_num_threads();
  const int64_t k = 1500;  // enough for libtorch to split the work on a row of the picture
  const at::Tensor T = plan(1600, k);
  at::set_num_threads(1);
  const TransportPicture alone = transport_picture(T, at::arange(k));
  at::set_num_threads(3);
  EXPECT_EQ(transport_picture(T, at::arange(k)), alone);
  at::set_num_threads(before);
}

TEST(MassLevel, SpansNearlyEightDecades) {
  EXPECT_EQ(level_of_mass(0.5, 0.5), 255);
  EXPECT_EQ(level_of_mass(0.05, 0.5), 255 - 32);
  EXPECT_EQ(level_of_mass(0.5e-7, 0.5), 255 - 7 * 32);
  EXPECT_EQ(level_of_mass(0.5e-8, 0.5), 0);
  EXPECT_EQ(level_of_mass(0.0, 0.5), 0);
  EXPECT_EQ(mass_of_level(0, 0.5), 0.0);
  for (double mass = 0.5; mass > 1e-8; mass *= 0.987) {
    EXPECT_NEAR(mass_of_level(level_of_mass(mass, 0.5), 0.5), mass, 0.037 * mass);
  }
}

}  // namespace
}  // namespace dotresize
