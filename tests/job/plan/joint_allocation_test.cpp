#include "job/plan/allocate/joint_allocation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/estimate/memory_estimate.h"
#include "job/plan/net_size.h"
#include "job/plan/plan_table.h"
#include "job/plan/shard_plan.h"
#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class JointAllocation : public ResolveJob {
 protected:
  JointAllocation() { with_method("name: slicegpt, size: 0.8, allocate: auto"); }

  void with_method(const std::string& method, const std::string& output = "path: o") {
    text("name: n\nmodel: {path: m}\noutput: {" + output + "}\nmethod: {" + method +
         "}\ncalibration: {text: [c.txt]}\n");
  }

  /// Returns predicted loss increases: the square of the part left out, times the weight of each
  /// junction, layer and layer's value heads (`values`).
  PredictedLossIncreases squares(
      const ResolvedJob& job, const std::vector<double>& junctions,
      const std::vector<double>& layers,
      const std::vector<double>& values = std::vector<double>(6, 1.0)) const {
    const std::vector<int64_t> widths = possible_widths(256, job.target.allocation->round_to);
    PredictedLossIncreases loss_increases;
    for (const double weight : junctions) {
      std::vector<double>& table = loss_increases.junctions.emplace_back();
      for (std::size_t in = 0; in < widths.size(); ++in) {
        for (const int64_t out : widths) {
          const auto lost = static_cast<double>(256 - out);
          table.push_back(weight * lost * lost);
        }
      }
    }
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      std::vector<double>& curve = loss_increases.mlps.emplace_back();
      const auto s = 2 * static_cast<int64_t>(layer) + 1;
      for (const int64_t width : possible_inner_widths(config_, job, s)) {
        const auto lost = static_cast<double>(768 - width);
        curve.push_back(layers[layer] * lost * lost);
      }
    }
    for (const double weight : values) {
      std::vector<double>& curve = loss_increases.values.emplace_back();
      for (const int64_t dim : possible_inner_widths(config_, job, 0)) {
        const auto lost = static_cast<double>(32 - dim);
        curve.push_back(100.0 * weight * lost * lost);
      }
    }
    return loss_increases;
  }
  NetSize size_of(const ResolvedJob& job, const Allocation& chosen) const {
    const ResolvedJob known = with_allocation(job, config_, chosen);
    NetSize size = net_size(with_features(config_, job, chosen), known, known.widths);
    size.dense_bytes = net_size(config_, job, job.widths).dense_bytes;
    return size;
  }
  /// Returns the lowest loss increase predicted for one width of all junctions and one number of
  /// features of all layers.
  double best_uniform(const ResolvedJob& job, const PredictedLossIncreases& loss_increases,
                      std::size_t step = 1) const {
    const std::vector<int64_t> widths = possible_widths(256, job.target.allocation->round_to);
    double best = 1e300;
    for (std::size_t w = 0; w < widths.size(); ++w) {
      for (std::size_t f = 0; f < loss_increases.mlps.front().size(); f += step) {
        Allocation uniform;
        uniform.widths = uniform_widths(config_, job.maps.head_sliced, widths[w]);
        for (const auto& table : loss_increases.junctions) {
          uniform.junction_loss_increases.push_back(table[w * widths.size() + w]);
        }
        for (const auto& curve : loss_increases.mlps) {
          uniform.features.push_back(possible_inner_widths(config_, job, 1)[f]);
          uniform.mlp_loss_increases.push_back(curve[f]);
        }
        const NetSize size = size_of(job, uniform);
        if (size.compressed_bytes > largest_bytes(job.target.allocation->size, size.dense_bytes))
          continue;
        best = std::min(best, uniform.predicted_loss_increase());
      }
    }
    return best;
  }
};

TEST_F(JointAllocation, NoJunctionGetsFarLessThanTheSizeSays) {
  spec_.mutable_method()->set_size(0.7);
  const ResolvedJob job = resolve();
  const std::vector<double> free_first = {0.0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const PredictedLossIncreases loss_increases =
      squares(job, free_first, std::vector<double>(6, 1e-3));
  const Allocation chosen = allocate_jointly(config_, job, loss_increases);
  EXPECT_EQ(std::ranges::min(chosen.widths.all), 112);  // 0.7 * 256 * 2/3 is 119.5

  spec_.mutable_method()->set_size(1.4);  // the same parameters, in twice the bytes
  spec_.mutable_output()->set_dtype(v1::Output::float32);
  EXPECT_EQ(allocate_jointly(config_, resolve(), loss_increases).widths.all, chosen.widths.all);
}

TEST_F(JointAllocation, OfATiedModelMeetsTheSizeWithOneTableOrTwo) {
  config_.tie_word_embeddings = true;
  for (const double size : {0.9, 0.6}) {
    spec_.mutable_method()->set_size(size);
    const ResolvedJob job = resolve();
    const PredictedLossIncreases loss_increases =
        squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 0.1));
    const Allocation chosen = allocate_jointly(config_, job, loss_increases);
    const NetSize net = size_of(job, chosen);
    const int64_t limit = largest_bytes(size, net.dense_bytes);
    EXPECT_LE(net.compressed_bytes, limit);
    EXPECT_GT(net.compressed_bytes, limit - 50'000);
    EXPECT_LT(chosen.predicted_loss_increase(), best_uniform(job, loss_increases, 8));
    EXPECT_EQ(output_model_config(config_, job, chosen.widths).tie_word_embeddings, size > 0.8);
  }
}

TEST_F(JointAllocation, TheLeastSizeThatIsAcceptedCanBeMet) {
  const auto accepts = [&](int percent) {
    spec_.mutable_method()->set_size(percent / 100.0);
    return error() == "was accepted";
  };
  int least = 60;
  while (accepts(least - 1)) --least;
  ASSERT_TRUE(accepts(least));
  EXPECT_LT(least, 40);
  const ResolvedJob job = resolve();
  const PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 1.0));
  EXPECT_LE(size_of(job, allocate_jointly(config_, job, loss_increases)).bytes_fraction(),
            least / 100.0);
}

TEST_F(JointAllocation, MeetsTheSizeAndIsPredictedToBeBetterThanAnyUniformChoice) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> weight(0.0, 1.5);
  for (const double size : {0.9, 0.5}) {
    spec_.mutable_method()->set_size(size);
    const ResolvedJob job = resolve();
    std::vector<double> junctions(13);
    std::vector<double> layers(6);
    for (double& each : junctions) each = weight(random);
    for (double& each : layers) each = 0.1 * weight(random);
    const PredictedLossIncreases loss_increases = squares(job, junctions, layers);
    const Allocation chosen = allocate_jointly(config_, job, loss_increases);
    const NetSize net = size_of(job, chosen);
    const int64_t limit = largest_bytes(size, net.dense_bytes);
    EXPECT_LE(net.compressed_bytes, limit);
    EXPECT_GT(net.compressed_bytes, limit - 50'000);  // less than a step of any width
    EXPECT_LT(chosen.predicted_loss_increase(), 0.9 * best_uniform(job, loss_increases, 8));
    for (const int64_t width : chosen.widths.all) EXPECT_EQ(width % 8, 0);
  }
}

class MixedDtypes : public JointAllocation {
 protected:
  /// Gives the tensors whose names have one of these parts another dtype.
  void set_dtypes(Dtype main, Dtype other, std::initializer_list<const char*> parts) {
    config_.dtypes = {main};
    for (const auto& [name, shape] : expected_shapes(config_)) {
      const auto is_in = [&](const char* part) { return name.find(part) != std::string::npos; };
      if (std::ranges::any_of(parts, is_in)) config_.dtypes.set(name, other);
    }
  }
  /// Checks allocations with and without maps.
  void expect_sizes_met(const std::string& output) {
    constexpr double kSize = 0.7;
    with_method("name: slicegpt, size: 0.7, allocate: auto", output);
    const ResolvedJob job = resolve();
    const PredictedLossIncreases loss_increases =
        squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 0.1));
    ModelConfig whole = config_;
    whole.dtypes = job.output.dtypes;
    const int64_t limit = largest_bytes(kSize, stored_bytes(config_));
    // A step of any width, or of all of a stock model's features.
    const int64_t step = job.stock_output() ? 600'000 : 100'000;
    std::vector<Allocation> choices = {allocate_jointly(config_, job, loss_increases)};
    const auto without_maps = allocate_without_maps(config_, job, loss_increases);
    if (without_maps) choices.push_back(*without_maps);
    for (const Allocation& chosen : choices) {
      const int64_t bytes = size_of(job, chosen).compressed_bytes;
      EXPECT_LE(bytes, limit) << output << ", " << to_string(config_.dtypes);
      EXPECT_GT(bytes, std::min(limit, stored_bytes(whole)) - step)
          << output << ", " << to_string(config_.dtypes);
    }
  }
};

TEST_F(MixedDtypes, SizesAreMetInBytes) {
  for (const char* output : {"path: o", "path: o, dtype: bfloat16", "path: o, format: stock"}) {
    for (const bool tied : {false, true}) {
      config_.tie_word_embeddings = tied;
      set_dtypes(Dtype::kBFloat16, Dtype::kFloat32, {"norm", "embed_tokens", "lm_head"});
      expect_sizes_met(output);
      set_dtypes(Dtype::kBFloat16, Dtype::kFloat32, {"down_proj"});
      expect_sizes_met(output);
      set_dtypes(Dtype::kFloat32, Dtype::kBFloat16, {"layers.0.", "v_proj", "lm_head"});
      expect_sizes_met(output);
    }
  }
}

TEST_F(JointAllocation, WhatCostsLittleGoes) {
  const ResolvedJob job = resolve();
  EXPECT_EQ(job.maps.metric, Metric::kFisher);
  EXPECT_TRUE(job.maps.head_sliced);
  EXPECT_EQ(to_string(job.maps.shortcuts), "auto");
  EXPECT_FALSE(job.widths_known());
  std::vector<double> junctions(13, 1.0);
  junctions[4] = 1e-3;
  std::vector<double> layers(6, 1.0);
  layers[2] = 1e-4;
  std::vector<double> values(6, 1.0);
  values[5] = 1e-4;
  const Allocation chosen = allocate_jointly(config_, job, squares(job, junctions, layers, values));
  for (std::size_t j = 0; j < 13; ++j) {
    if (j == 4) continue;
    EXPECT_LT(chosen.widths.all[4], chosen.widths.all[j]);
  }
  for (std::size_t layer = 0; layer < 6; ++layer) {
    if (layer == 2) continue;
    EXPECT_LT(chosen.features[2], chosen.features[layer]);
  }
  EXPECT_LT(chosen.values[5], *std::min_element(chosen.values.begin(), chosen.values.end() - 1));
  EXPECT_EQ(chosen.value_loss_increases.size(), 6u);
}

TEST_F(JointAllocation, TheOutputIsAsLargeAsItsTensors) {
  const ResolvedJob job = resolve();
  std::vector<double> values(6, 1e3);
  values[1] = 1e-6;
  const Allocation chosen = allocate_jointly(
      config_, job,
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 1.0), values));
  EXPECT_EQ(chosen.values[1], 0);  // queries and keys go, too
  EXPECT_EQ(chosen.values[0], 32);
  const ModelConfig cut = with_features(config_, job, chosen);
  EXPECT_TRUE(is_skipped(cut, 2));
  const ModelConfig output =
      output_model_config(cut, with_allocation(job, config_, chosen), chosen.widths);
  EXPECT_EQ(output.form.value_head_dims, chosen.values);
  EXPECT_EQ(stored_parameters(output), size_of(job, chosen).compressed_parameters);
  ModelConfig wide = output;
  wide.form.value_head_dims.clear();
  const int64_t k_in = output.form.junction_widths[2];
  const int64_t k_out = output.form.junction_widths[3];
  EXPECT_EQ(stored_parameters(wide) - stored_parameters(output),
            32 * (12 * k_in + 8 * k_out));  // heads: 8 query, 2 key, 2 value
}

TEST_F(JointAllocation, ValueHeadsGetMultiplesOfA32ndOfTheHeads) {
  EXPECT_EQ(possible_value_dims(config_).size(), 32u);
  EXPECT_EQ(possible_value_dims(config_).back(), 1);
  config_.attention.head_dim = 80;
  EXPECT_EQ(possible_value_dims(config_)[1], 78);
  config_.attention.head_dim = 128;
  EXPECT_EQ(possible_value_dims(config_)[1], 124);
  EXPECT_EQ(possible_value_dims(config_).back(), 4);
  config_.attention.head_dim = 12;
  EXPECT_EQ(possible_value_dims(config_)[1], 11);
}

TEST_F(JointAllocation, AnMlpGetsMultiplesOfRoundToOrAllOfItsFeatures) {
  ResolvedJob job = resolve();
  const std::vector<int64_t> widths = possible_mlp_widths(config_, *job.mlp, 3);
  EXPECT_EQ(widths.size(), 96u);
  EXPECT_EQ(widths.front(), 768);
  EXPECT_EQ(widths[1], 760);
  EXPECT_EQ(widths.back(), 8);
  job.mlp->round_to = 500;
  EXPECT_THAT(possible_mlp_widths(config_, *job.mlp, 3), testing::ElementsAre(768, 500));
  EXPECT_EQ(job.mlp->rounds(), 3);
  EXPECT_EQ(mlp_width(with_cut_mlps(config_, job.mlp), 3), 768);
}

TEST_F(JointAllocation, WithoutMapsMlpsAndExpertsShareWhatIsLeft) {
  config_ = parse_model_config(kQwen3MoeConfig, "config.json");
  config_.mixture->layers.front() = false;  // layer 0 has an MLP
  spec_.mutable_method()->set_round_to(64);
  const ResolvedJob job = resolve();
  PredictedLossIncreases loss_increases;
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    const std::size_t widths = possible_inner_widths(config_, job, 2 * layer + 1).size();
    std::vector<double>& curve = loss_increases.mlps.emplace_back();
    for (std::size_t i = 0; i < widths; ++i) {
      curve.push_back(static_cast<double>(i * static_cast<std::size_t>(1 + layer % 3)));
    }
    const std::size_t dims = possible_inner_widths(config_, job, 2 * layer).size();
    loss_increases.values.emplace_back(dims, 1e9).front() = 0.0;
  }
  const Allocation chosen = allocate_without_maps(config_, job, loss_increases).value();
  const NetSize size = size_of(job, chosen);
  EXPECT_LE(size.compressed_bytes, largest_bytes(0.8, size.dense_bytes));
  EXPECT_EQ(chosen.features[3], 0);  // a step costs a third of one of layer 44
  EXPECT_EQ(chosen.features[44], config_.mixture->intermediate_size);
  EXPECT_EQ(chosen.features[0], config_.intermediate_size);  // few parameters a step
}

TEST_F(JointAllocation, ADenseHeadKeepsItsWidth) {
  spec_.mutable_method()->set_head(v1::Method::dense);
  const ResolvedJob job = resolve();
  const Allocation chosen = allocate_jointly(
      config_, job, squares(job, std::vector<double>(12, 1.0), std::vector<double>(6, 1.0)));
  EXPECT_EQ(chosen.widths.all.back(), 256);
  EXPECT_EQ(chosen.junction_loss_increases.size(), 12u);
  EXPECT_LE(size_of(job, chosen).bytes_fraction(), 0.8);
}

TEST_F(JointAllocation, LossIncreasesThatFollowTheWidthBefore) {
  const ResolvedJob job = resolve();
  PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 100.0));
  const std::size_t grid = 32;
  for (std::size_t j = 1; j < 13; ++j) {
    for (std::size_t in = 0; in < grid; ++in) {
      // Nothing is left to lose at a junction that is at least as wide as the one before.
      for (std::size_t out = in; out < grid; ++out)
        loss_increases.junctions[j][in * grid + out] = 0.0;
    }
  }
  const Allocation chosen = allocate_jointly(config_, job, loss_increases);
  EXPECT_THAT(std::vector<double>(chosen.junction_loss_increases.begin() + 1,
                                  chosen.junction_loss_increases.end()),
              Each(0.0));
  EXPECT_TRUE(std::ranges::is_sorted(chosen.widths.all));
}

TEST_F(JointAllocation, RanksGoWhereTheyAreWorthTheirParameters) {
  spec_.mutable_method()->set_size(0.6);
  const ResolvedJob job = resolve();
  const std::vector<int64_t> ranks = possible_shortcut_ranks(256);
  PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 1.0));
  const Allocation fixed = allocate_jointly(config_, job, loss_increases);
  EXPECT_THAT(fixed.shortcut_ranks, Each(8));
  EXPECT_THAT(fixed.shortcut_loss_increases, Each(0.0));

  loss_increases.shortcuts.resize(12);
  for (std::size_t s = 0; s < 11; ++s) {  // the last shortcut has no prediction
    for (const int64_t rank : ranks) {
      const double missing = static_cast<double>(std::max<int64_t>(0, 12 - rank));
      loss_increases.shortcuts[s].push_back(s == 3 ? 0.0
                                                   : (s == 5 ? 40.0 : 10.0) * missing * missing);
    }
  }
  const Allocation chosen = allocate_jointly(config_, job, loss_increases);
  EXPECT_LT(std::ranges::max(chosen.widths.all), 240);  // no shortcut of these ranks is exact
  EXPECT_EQ(chosen.shortcut_ranks[3], 0);
  EXPECT_GT(chosen.shortcut_ranks[5], chosen.shortcut_ranks[4]);
  EXPECT_GT(chosen.shortcut_ranks[4], 0);
  EXPECT_EQ(chosen.shortcut_ranks[11], 8);
  for (std::size_t s = 0; s < 11; ++s) {
    const auto index = std::ranges::find(ranks, chosen.shortcut_ranks[s]) - ranks.begin();
    EXPECT_EQ(chosen.shortcut_loss_increases[s],
              loss_increases.shortcuts[s][static_cast<std::size_t>(index)]);
  }
  EXPECT_LE(size_of(job, chosen).bytes_fraction(), 0.6);

  // The choice beats a uniform rank of 8 (used without a prediction) and of 3.
  for (const std::size_t same : {77, 82}) {
    PredictedLossIncreases only = loss_increases;
    ResolvedJob with_rank = job;
    with_rank.maps.shortcuts.rank = ranks[same];
    only.shortcuts.clear();
    const Allocation uniform = allocate_jointly(config_, with_rank, only);
    double loss_increase = uniform.predicted_loss_increase();
    for (std::size_t s = 0; s < 11; ++s) loss_increase += loss_increases.shortcuts[s][same];
    EXPECT_LT(chosen.predicted_loss_increase(), loss_increase) << ranks[same];
  }
}

TEST_F(JointAllocation, AnExactShortcutLosesNothing) {
  spec_.mutable_method()->set_size(0.97);
  const ResolvedJob job = resolve();
  PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 1e-6));
  loss_increases.shortcuts.assign(12,
                                  std::vector<double>(possible_shortcut_ranks(256).size(), 1.0));
  const Allocation chosen = allocate_jointly(config_, job, loss_increases);
  for (std::size_t s = 0; s < 12; ++s) {
    const int64_t exact =
        exact_shortcut_rank(chosen.widths.all[s], chosen.widths.all[s + 1], 256, 2);
    const int64_t narrower = std::max<int64_t>(0, chosen.widths.all[s] - chosen.widths.all[s + 1]);
    const bool cut = chosen.shortcut_ranks[s] + narrower < exact;
    EXPECT_EQ(chosen.shortcut_loss_increases[s], cut ? 1.0 : 0.0);
  }
  EXPECT_THAT(chosen.shortcut_loss_increases, testing::Contains(0.0));
}

TEST_F(JointAllocation, WithoutMapsEveryJunctionKeepsItsWidthAndTheSizeIsMet) {
  const ResolvedJob job = resolve();
  const std::vector<double> layers = {1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3};
  PredictedLossIncreases loss_increases = squares(job, {}, layers);
  loss_increases.junctions.clear();
  const Allocation chosen = allocate_without_maps(config_, job, loss_increases).value();
  EXPECT_EQ(chosen.widths.mapped_count, 0);
  EXPECT_THAT(chosen.widths.all, Each(256));
  const NetSize size = size_of(job, chosen);
  const int64_t most = largest_bytes(0.8, size.dense_bytes);
  EXPECT_LE(size.compressed_bytes, most);
  EXPECT_GT(size.compressed_bytes, most - 2 * (3 * 256 * 8));  // one step of an MLP, bfloat16
  EXPECT_GT(chosen.features.back(), chosen.features.front());
  const std::size_t sizes = loss_increases.mlps.front().size();
  for (std::size_t f = 0; f < sizes; ++f) {
    Allocation uniform = chosen;
    uniform.values.assign(6, 32);
    uniform.value_loss_increases.assign(6, 0.0);
    for (std::size_t layer = 0; layer < 6; ++layer) {
      uniform.features[layer] = possible_inner_widths(config_, job, 1)[f];
      uniform.mlp_loss_increases[layer] = loss_increases.mlps[layer][f];
    }
    if (size_of(job, uniform).compressed_bytes > most) continue;
    EXPECT_LT(chosen.predicted_loss_increase(), uniform.predicted_loss_increase());
    break;
  }
}

/// Removing a whole sublayer saves more than its features or channels: queries and keys go, too.
TEST_F(JointAllocation, WithoutMapsASublayerMayGoAltogether) {
  const ResolvedJob job = resolve();
  std::vector<double> layers(6, 1e-3);
  layers[3] = 1e-7;
  std::vector<double> values(6, 1.0);
  values[4] = 1e-5;
  const PredictedLossIncreases loss_increases = squares(job, {}, layers, values);
  const Allocation chosen = allocate_without_maps(config_, job, loss_increases).value();
  EXPECT_EQ(chosen.features[3], 0);
  EXPECT_EQ(chosen.values[4], 0);
  EXPECT_GT(std::ranges::count_if(chosen.values, [](int64_t dim) { return dim > 0; }), 3);
  const NetSize size = size_of(job, chosen);
  const int64_t most = largest_bytes(0.8, size.dense_bytes);
  EXPECT_LE(size.compressed_bytes, most);
  EXPECT_GT(size.compressed_bytes, most - 2 * (3 * 256 * 8));
  const ModelConfig cut = with_features(config_, job, chosen);
  EXPECT_EQ(stored_parameters(
                output_model_config(cut, with_allocation(job, config_, chosen), chosen.widths)),
            size.compressed_parameters);
}

TEST_F(JointAllocation, ASublayerThatAddsABiasStays) {
  config_.mlp_bias = true;
  const ResolvedJob job = resolve();
  EXPECT_EQ(possible_inner_widths(config_, job, 1).back(), job.target.allocation->round_to);
  EXPECT_EQ(possible_inner_widths(config_, job, 0).back(), 0);
}

TEST_F(JointAllocation, WithoutMapsASizeBelowThatOfTheTablesIsNotThere) {
  spec_.mutable_method()->set_size(0.31);  // both tables take 0.317
  ResolvedJob job = resolve();
  const PredictedLossIncreases loss_increases = squares(job, {}, std::vector<double>(6, 1e-3));
  EXPECT_FALSE(allocate_without_maps(config_, job, loss_increases));
  spec_.mutable_method()->set_size(0.6);
  job = resolve();
  EXPECT_TRUE(allocate_without_maps(config_, job, squares(job, {}, std::vector<double>(6, 1e-3))));
}

TEST_F(JointAllocation, WithoutMapsAStockModelHasAsManyFeaturesInEveryLayer) {
  with_method("name: slicegpt, size: 0.8, allocate: auto", "path: o, format: stock");
  const ResolvedJob job = resolve();
  const PredictedLossIncreases loss_increases =
      squares(job, {}, {1e-3, 1e-3, 1e-3, 9e-3, 9e-3, 9e-3});
  const Allocation chosen = allocate_without_maps(config_, job, loss_increases).value();
  EXPECT_THAT(chosen.features, Each(chosen.features.front()));
  EXPECT_THAT(chosen.values, IsEmpty());
  const NetSize size = size_of(job, chosen);
  EXPECT_LE(size.compressed_bytes, largest_bytes(0.8, size.dense_bytes));
}

TEST_F(JointAllocation, OfAStockModelHasOneWidthAndAsManyFeaturesForAll) {
  with_method("name: slicegpt, size: 0.8, allocate: auto", "path: o, format: stock");
  const ResolvedJob job = resolve();
  EXPECT_TRUE(job.stock_output());
  EXPECT_EQ(job.output.stock_family, "mistral");
  const PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 0.02));
  const Allocation chosen = allocate_jointly(config_, job, loss_increases);
  EXPECT_THAT(chosen.widths.all, Each(chosen.widths.all.front()));
  EXPECT_THAT(chosen.features, Each(chosen.features.front()));
  EXPECT_LT(chosen.widths.all.front(), 256);
  EXPECT_LT(chosen.features.front(), 768);
  EXPECT_THAT(chosen.values, IsEmpty());
  EXPECT_THAT(chosen.shortcut_ranks, IsEmpty());
  EXPECT_LE(size_of(job, chosen).bytes_fraction(), 0.8);
  EXPECT_DOUBLE_EQ(chosen.predicted_loss_increase(), best_uniform(job, loss_increases));
  const ModelConfig cut = with_features(config_, job, chosen);
  EXPECT_EQ(cut.intermediate_size, chosen.features.front());
  EXPECT_TRUE(cut.form.intermediate_sizes.empty());
  EXPECT_TRUE(cut.form.value_head_dims.empty());
  const std::string table = plan_table(make_job_plan(config_, job));
  EXPECT_THAT(table, Not(HasSubstr("\nvalues")));
}

TEST_F(JointAllocation, ASizeThatCannotBeHadIsRefused) {
  spec_.mutable_method()->set_size(0.001);
  EXPECT_THAT(error(), HasSubstr("method.size: 0.001 is not available: the smallest widths, 8"));
}

TEST_F(JointAllocation, LossIncreasesOfAnotherModelAreRefused) {
  const ResolvedJob job = resolve();
  const PredictedLossIncreases loss_increases =
      squares(job, std::vector<double>(12, 1.0), std::vector<double>(6, 1.0));
  EXPECT_THROW(allocate_jointly(config_, job, loss_increases), std::invalid_argument);
  PredictedLossIncreases infinite =
      squares(job, std::vector<double>(13, 1.0), std::vector<double>(6, 1.0));
  infinite.junctions[3][5] = std::nan("");
  EXPECT_THROW(allocate_jointly(config_, job, infinite), std::invalid_argument);
}

TEST_F(JointAllocation, AttentionsAreSummedBesideMlps) {
  const ResolvedJob any = resolve();
  with_method("name: slicegpt, size: 0.8, allocate: auto", "path: o, format: stock");
  const ResolvedJob stock = resolve();
  EXPECT_EQ(count_cut_sublayers(any, 1, 6), 5);
  EXPECT_EQ(count_cut_sublayers(stock, 1, 6), 3);
  const auto held = [&](const ResolvedJob& job) {
    const ShardPlan plan = make_shard_plan(config_, job);
    return RankMemory{config_, job, plan.of_rank(0), DeviceKind::kCpu, Dtype::kFloat32}
        .sublayer_cut();
  };
  EXPECT_EQ(held(any) - held(stock), 6 * 8 * 256 * 256);  // the metric of the junctions
}

TEST_F(JointAllocation, ThePlanSaysWhatIsKnown) {
  const ResolvedJob job = resolve();
  const std::string table = plan_table(make_job_plan(config_, job));
  EXPECT_THAT(table, HasSubstr("target      size 0.8, allocated by loss\n"));
  EXPECT_THAT(table, HasSubstr("mlp         features up to 768, likewise\n"
                               "values      channels of a head up to 32, likewise\n"));
  EXPECT_THAT(table,
              HasSubstr("passes      3 over the tokens and 3 back, 13 junctions in 1 group"));
  EXPECT_THAT(table, HasSubstr("compressed  at most 10,595,942 bytes"));
  const auto document = nlohmann::json::parse(plan_to_json(make_job_plan(config_, job)));
  EXPECT_EQ(document["compressed"]["bytes_at_most"], 10'595'942);
  EXPECT_FALSE(document.contains("mlp_width"));
}

}  // namespace
}  // namespace dotresize
