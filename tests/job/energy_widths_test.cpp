#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "job/plan/choose_widths.h"
#include "job/plan/net_size.h"
#include "tests/job/test_configs.h"

namespace dotresize {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMapped = 12;  // small_llama with a dense head

/// A job of small_llama whose widths come from energy, in steps of 8.
ResolvedJob energy_job(std::optional<double> keep, std::optional<double> size) {
  ResolvedJob job = small_job(small_llama(), 1);
  job.sparsity.reset();
  job.widths = uniform_widths(small_llama(), job.head_sliced, 256);
  job.energy = EnergyTarget{.keep = keep, .size = size, .round_to = 8};
  return job;
}

/// Row j decays as decay^i, decay closer to 1 from junction to junction: each needs more width than
/// the one before.
std::vector<std::vector<double>> spectra() {
  std::vector<std::vector<double>> rows(kMapped);
  for (std::size_t j = 0; j < kMapped; ++j) {
    const double decay = 1.0 - 0.2 / static_cast<double>(j + 1);
    for (int i = 0; i < 256; ++i) rows[j].push_back(std::pow(decay, i));
  }
  return rows;
}

double held(const std::vector<double>& row, int64_t width) {
  double leading = 0.0, all = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    all += row[i];
    if (static_cast<int64_t>(i) < width) leading += row[i];
  }
  return leading / all;
}

JunctionWidths chosen(std::optional<double> keep, std::optional<double> size) {
  return energy_widths(energy_job(keep, size), small_llama(), spectra());
}

std::string error_of(std::optional<double> keep, std::optional<double> size) {
  try {
    chosen(keep, size);
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(EnergyWidths, KeepGivesTheSmallestWidthThatHoldsIt) {
  const JunctionWidths widths = chosen(0.9, {});
  for (std::size_t j = 0; j < kMapped; ++j) {
    const int64_t width = widths.all[j];
    EXPECT_EQ(width % 8, 0);
    EXPECT_GE(held(spectra()[j], width), 0.9);
    EXPECT_LT(held(spectra()[j], width - 8), 0.9) << j;
  }
  EXPECT_EQ(widths.all.back(), 256);
  EXPECT_GE(*widths.held, 0.9);
  EXPECT_GT(widths.largest(), widths.all.front());
}

TEST(EnergyWidths, SizeGivesTheLargestEnergyThatFits) {
  const ModelConfig config = small_llama();
  for (const double size : {0.3, 0.5, 0.7, 0.8, 0.9}) {
    const ResolvedJob job = energy_job({}, size);
    const JunctionWidths widths = chosen({}, size);
    EXPECT_LE(net_size(config, job, widths).bytes_fraction(), size);
    const double energy = *widths.held;
    // The widths for the least bit more energy, by hand.
    JunctionWidths more = widths;
    for (std::size_t j = 0; j < kMapped; ++j) {
      EXPECT_GE(held(spectra()[j], widths.all[j]), energy - 1e-12);
      int64_t& width = more.all[j];
      for (width = 8; width < 256 && held(spectra()[j], width) <= energy * (1.0 + 1e-12);)
        width += 8;
    }
    EXPECT_GT(net_size(config, job, more).bytes_fraction(), size) << size;
  }
}

TEST(EnergyWidths, KeepIsAFloorBesideASize) {
  const double energy = *chosen({}, 0.8).held;
  EXPECT_EQ(chosen(energy - 1e-6, 0.8).all, chosen({}, 0.8).all);
  EXPECT_THAT(error_of(energy + 1e-6, 0.8),
              testing::AllOf(StartsWith("method.widths.size: 0.8 leaves the junctions 0."),
                             HasSubstr("less than method.widths.keep, 0.")));
}

TEST(EnergyWidths, AResultThatIsNotSmallerIsRefusedUnlessAllowed) {
  ResolvedJob job = energy_job(1.0, {});
  job.shortcuts.kind = Shortcuts::Kind::kDense;
  try {
    energy_widths(job, small_llama(), spectra());
    ADD_FAILURE() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("method.widths.keep: the result, "));
  }
  job.allow_larger = true;
  EXPECT_EQ(energy_widths(job, small_llama(), spectra()).largest(), 256);
}

TEST(EnergyWidths, ASizeBelowThatOfTheSmallestWidthsIsRefusedBeforeAnythingRuns) {
  EXPECT_NO_THROW(check_energy_target(small_llama(), energy_job({}, 0.22)));
  try {
    check_energy_target(small_llama(), energy_job({}, 0.2));
    ADD_FAILURE() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "method.widths.size: 0.2 is not available: the smallest widths, 8, give 0.213489 of "
        "the dense model's bytes");
  }
}

TEST(EnergyWidths, EigenvaluesThatRoundingMadeNegativeHoldNothing) {
  // As sums, the first eight would hold more than all: a threshold that no other junction meets.
  std::vector<double> row(256, -1e-12);
  row[0] = 1.0;
  std::vector<std::vector<double>> rows(kMapped, row);
  rows[3].assign(256, 0.0);
  std::fill_n(rows[3].begin(), 16, 1.0);
  const JunctionWidths widths = energy_widths(energy_job({}, 0.9), small_llama(), rows);
  EXPECT_EQ(widths.all[3], 16);
  EXPECT_THAT(std::vector(widths.all.begin(), widths.all.begin() + 3), Each(8));
  EXPECT_EQ(*widths.held, 1.0);
}

TEST(EnergyWidths, AJunctionWithoutEnergyIsAnErrorThatNamesIt) {
  auto rows = spectra();
  rows[3].assign(256, 0.0);
  try {
    energy_widths(energy_job(0.9, {}), small_llama(), rows);
    ADD_FAILURE() << "was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "junction layers.1.attention: all activations of the junction are zero");
  }
}

}  // namespace
}  // namespace dotresize
