#include "job/plan/allocate/allocation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/allocate/choices.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/net_size.h"
#include "job/plan/plan_table.h"
#include "job/plan/shards/shard_plan.h"
#include "job/plan/steps/step.h"
#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Curves = std::vector<SublayerCurve>;

class AllocationTest : public ResolveJob {
 protected:
  AllocationTest() { with_size("size: 0.8"); }

  void with_size(const std::string& method, const std::string& output = "path: o") {
    text("name: n\nmodel: {path: m}\noutput: {" + output + "}\nmethod: {" + method +
         "}\ncalibration: {text: [c.txt]}\n");
  }

  /// Returns predicted loss increases: the square of the part left out, times the weight of each
  /// layer's MLP and value heads.
  Curves squares(const ResolvedJob& job, const std::vector<double>& layers,
                 const std::vector<double>& values = std::vector<double>(6, 1.0)) const {
    Curves curves;
    for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
      if (!may_be_cut(job, s)) continue;
      SublayerCurve& curve = curves.emplace_back(SublayerCurve{s, {}});
      const auto layer = static_cast<std::size_t>(layer_of(s));
      const double weight = is_attention(s) ? 100.0 * values.at(layer) : layers.at(layer);
      const std::vector<Choice> possible = choices(config_, job, s);
      for (const Choice& choice : possible) {
        const auto lost = static_cast<double>(possible.front().size - choice.size);
        curve.loss_increases.push_back(weight * lost * lost);
      }
    }
    return curves;
  }
  NetSize size_of(const ResolvedJob& job, const Allocation& allocation) const {
    return net_size(
        config_, output_model_config(with_chosen_sizes(config_, job, allocation), job, job.widths));
  }
  /// Returns the unit's number of parts in each MLP.
  std::vector<int64_t> sizes_in_mlps(const Allocation& allocation, const Unit& unit) const {
    std::vector<int64_t> sizes;
    for (const ChosenSize& one : allocation.chosen) {
      if (is_attention(one.sublayer)) continue;
      LayerSpec layer = config_.layers[static_cast<std::size_t>(layer_of(one.sublayer))];
      one.unit->set_size(one.size, layer);
      sizes.push_back(unit.size(layer));
    }
    return sizes;
  }
  std::vector<int64_t> features(const Allocation& allocation) const {
    return sizes_in_mlps(allocation, kFeatures);
  }
  std::vector<int64_t> values(const Allocation& allocation) const {
    std::vector<int64_t> sizes;
    std::ranges::transform(allocation.in(/*attentions=*/true), std::back_inserter(sizes),
                           &ChosenSize::size);
    return sizes;
  }
  /// Returns the lowest loss increase predicted for one number of features of all layers, without
  /// cut value heads.
  double best_uniform(const ResolvedJob& job, const Curves& curves) const {
    double best = 1e300;
    for (std::size_t f = 0; f < choices(config_, job, 1).size(); ++f) {
      Allocation uniform;
      for (const SublayerCurve& curve : curves) {
        const std::size_t i = is_attention(curve.sublayer) ? 0 : f;
        const auto [unit, size] = choices(config_, job, curve.sublayer).at(i);
        uniform.chosen.push_back({curve.sublayer, unit, size, curve.loss_increases.at(i)});
      }
      const NetSize size = size_of(job, uniform);
      if (size.compressed_bytes > largest_bytes(job.target.allocation->size, size.dense_bytes))
        continue;
      best = std::min(best, uniform.predicted_loss_increase());
    }
    return best;
  }
};

TEST_F(AllocationTest, TheLeastSizeThatIsAcceptedCanBeMet) {
  const auto accepts = [&](int percent) {
    spec_.mutable_method()->set_size(percent / 100.0);
    return error() == "was accepted";
  };
  int least = 60;
  while (accepts(least - 1)) --least;
  ASSERT_TRUE(accepts(least));
  EXPECT_LT(least, 40);
  const ResolvedJob job = resolve();
  const Curves curves = squares(job, std::vector<double>(6, 1.0));
  EXPECT_LE(size_of(job, allocate(config_, job, curves)).bytes_fraction(), least / 100.0);
}

TEST_F(AllocationTest, MeetsTheSizeAndIsPredictedToBeBetterThanAnyUniformChoice) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> weight(0.0, 1.5);
  for (const double size : {0.9, 0.5}) {
    spec_.mutable_method()->set_size(size);
    const ResolvedJob job = resolve();
    std::vector<double> layers(6);
    for (double& each : layers) each = 0.1 * weight(random);
    const Curves curves = squares(job, layers);
    const Allocation chosen = allocate(config_, job, curves);
    const NetSize net = size_of(job, chosen);
    const int64_t limit = largest_bytes(size, net.dense_bytes);
    EXPECT_LE(net.compressed_bytes, limit);
    EXPECT_GT(net.compressed_bytes, limit - 2 * (3 * 256 * 8));  // one step of an MLP, bfloat16
    EXPECT_LT(chosen.predicted_loss_increase(), 0.9 * best_uniform(job, curves));
  }
}

class MixedDtypes : public AllocationTest {
 protected:
  /// Gives the tensors whose names have one of these parts another dtype.
  void set_dtypes(Dtype main, Dtype other, std::initializer_list<const char*> parts) {
    config_.files.dtypes = {main};
    for (const auto& [name, shape] : expected_shapes(config_)) {
      const auto is_in = [&](const char* part) { return name.find(part) != std::string::npos; };
      if (std::ranges::any_of(parts, is_in)) config_.files.dtypes.set(name, other);
    }
  }
  void expect_size_met(const std::string& output) {
    constexpr double kSize = 0.7;
    with_size("size: 0.7", output);
    const ResolvedJob job = resolve();
    ModelConfig whole = config_;
    whole.files.dtypes = job.output.dtypes;
    const int64_t limit = largest_bytes(kSize, stored_bytes(config_));
    // A step of any width, or of all of a stock model's features.
    const int64_t step = job.stock_output() ? 600'000 : 100'000;
    const Allocation chosen = allocate(config_, job, squares(job, std::vector<double>(6, 0.1)));
    const int64_t bytes = size_of(job, chosen).compressed_bytes;
    EXPECT_LE(bytes, limit) << output << ", " << to_string(config_.files.dtypes);
    EXPECT_GT(bytes, std::min(limit, stored_bytes(whole)) - step)
        << output << ", " << to_string(config_.files.dtypes);
  }
};

TEST_F(MixedDtypes, SizesAreMetInBytes) {
  for (const char* output : {"path: o", "path: o, dtype: bfloat16", "path: o, format: stock"}) {
    for (const bool tied : {false, true}) {
      config_.tie_word_embeddings = tied;
      set_dtypes(Dtype::kBFloat16, Dtype::kFloat32, {"norm", "embed_tokens", "lm_head"});
      expect_size_met(output);
      set_dtypes(Dtype::kBFloat16, Dtype::kFloat32, {"down_proj"});
      expect_size_met(output);
      set_dtypes(Dtype::kFloat32, Dtype::kBFloat16, {"layers.0.", "v_proj", "lm_head"});
      expect_size_met(output);
    }
  }
}

TEST_F(AllocationTest, WhatCostsLittleGoes) {
  const ResolvedJob job = resolve();
  EXPECT_EQ(job.maps.metric, Metric::kFisher);
  EXPECT_EQ(job.widths.mapped_count, 0) << "there are no maps";
  EXPECT_FALSE(job.sizes_known());
  std::vector<double> layers(6, 1.0);
  layers[2] = 1e-4;
  std::vector<double> of_values(6, 1.0);
  of_values[5] = 1e-4;
  const Allocation chosen = allocate(config_, job, squares(job, layers, of_values));
  for (std::size_t layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(features(chosen)[2] < features(chosen)[layer], layer != 2);
    EXPECT_EQ(values(chosen)[5] < values(chosen)[layer], layer != 5);
  }
}

TEST_F(AllocationTest, TheOutputIsAsLargeAsItsTensors) {
  const ResolvedJob job = resolve();
  std::vector<double> of_values(6, 1e3);
  of_values[1] = 1e-6;
  const Allocation chosen =
      allocate(config_, job, squares(job, std::vector<double>(6, 1.0), of_values));
  EXPECT_EQ(values(chosen)[1], 0);  // queries and keys go, too
  EXPECT_EQ(values(chosen)[0], 32);
  const ModelConfig cut = with_chosen_sizes(config_, job, chosen);
  EXPECT_TRUE(is_skipped(cut, 2));
  const ModelConfig output = output_model_config(cut, job, job.widths);
  for (int64_t s = 0; s < 12; s += 2) {
    EXPECT_EQ(inner_width(output, s), values(chosen)[static_cast<std::size_t>(s / 2)]);
  }
  EXPECT_EQ(stored_parameters(output), size_of(job, chosen).compressed_parameters);
  ModelConfig wide = output;
  for (LayerSpec& layer : wide.layers) layer.attention.value_head_dim = 32;
  EXPECT_EQ(stored_parameters(wide) - stored_parameters(output),
            256 + 32 * (12 + 8) * 256);  // norm; heads: 8 query, 2 key, 2 value; o
}

TEST_F(AllocationTest, ValueHeadsGetMultiplesOfA32ndOfTheHeads) {
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8).size(), 32u);
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8).back(), 1);
  config_.layers.front().attention.head_dim = 80;
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8)[1], 78);
  config_.layers.front().attention.head_dim = 128;
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8)[1], 124);
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8).back(), 4);
  config_.layers.front().attention.head_dim = 12;
  EXPECT_EQ(kValueChannels.sizes(config_.layers.front(), 8)[1], 11);
}

TEST_F(AllocationTest, AnMlpGetsMultiplesOfRoundToOrAllOfItsFeatures) {
  ResolvedJob job = resolve();
  const std::vector<int64_t> widths = kFeatures.sizes(config_.layers[1], job.mlp->round_to);
  EXPECT_EQ(widths.size(), 96u);
  EXPECT_EQ(widths.front(), 768);
  EXPECT_EQ(widths[1], 760);
  EXPECT_EQ(widths.back(), 8);
  job.mlp->round_to = 500;
  EXPECT_THAT(kFeatures.sizes(config_.layers[1], job.mlp->round_to),
              testing::ElementsAre(768, 500));
  EXPECT_EQ(mlp_width(with_cut_mlps(config_, job.mlp), 3), 768);
}

TEST_F(AllocationTest, MlpsAndExpertsShareWhatIsLeft) {
  config_ = parse_model_config(kQwen3MoeConfig, "config.json");
  config_.layers.front().mlp = {.intermediate_size = 6144};
  spec_.mutable_method()->set_round_to(64);
  const ResolvedJob job = resolve();
  Curves curves;
  for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
    const std::size_t widths = choices(config_, job, s).size();
    SublayerCurve& curve = curves.emplace_back(SublayerCurve{s, std::vector<double>(widths, 1e9)});
    curve.loss_increases.front() = 0.0;
    for (std::size_t i = 0; !is_attention(s) && i < widths; ++i) {
      curve.loss_increases[i] =
          static_cast<double>(i * static_cast<std::size_t>(1 + layer_of(s) % 3));
    }
  }
  const Allocation chosen = allocate(config_, job, curves);
  const NetSize size = size_of(job, chosen);
  EXPECT_LE(size.compressed_bytes, largest_bytes(0.8, size.dense_bytes));
  EXPECT_EQ(features(chosen)[3], 0);  // a step costs a third of one of layer 44
  EXPECT_EQ(features(chosen)[44], 768);
  EXPECT_EQ(features(chosen)[0], 6144);  // few parameters a step
}

class MixtureAllocation : public AllocationTest {
 protected:
  MixtureAllocation() {
    for (LayerSpec& layer : config_.layers) {
      layer.mlp.intermediate_size = 96;
      layer.mlp.mixture = {.experts = 12,
                           .experts_per_token = 3,
                           .names = {"mlp", "gate_proj", "up_proj", "down_proj"}};
    }
  }
  /// Returns the numbers of experts among the choices of a mixture.
  std::vector<int64_t> numbers_of_experts() const {
    std::vector<int64_t> numbers;
    for (const auto& [unit, size] : choices(config_, resolve(), 1)) {
      if (unit == &kExperts) numbers.push_back(size);
    }
    return numbers;
  }
  /// Returns curves of which the unit costs nothing in these layers, and all else much.
  Curves curves_of(const ResolvedJob& job, const Unit& free, std::set<int64_t> layers) const {
    Curves curves;
    for (int64_t s = 0; s < config_.num_sublayers(); ++s) {
      if (!may_be_cut(job, s)) continue;
      SublayerCurve& curve = curves.emplace_back(SublayerCurve{s, {}});
      for (const auto& [unit, size] : choices(config_, job, s)) {
        const bool nothing = curve.loss_increases.empty() ||
                             (unit == &free && size > 0 && layers.contains(layer_of(s)));
        curve.loss_increases.push_back(nothing ? 0.0 : 1.0 + curve.loss_increases.back());
      }
    }
    return curves;
  }
};

TEST_F(MixtureAllocation, ChoicesOfBothUnitsAreInTheOrderOfTheirBytes) {
  const ResolvedJob job = resolve();
  const std::vector<Choice> possible = choices(config_, job, 1);
  EXPECT_EQ(possible.front(), (Choice{&kFeatures, 96}));
  EXPECT_EQ(possible.back(), (Choice{&kFeatures, 0}));
  EXPECT_THAT(possible, Contains(Choice{&kExperts, 3}));
  EXPECT_THAT(possible, Contains(Choice{&kFeatures, 8}));
  const std::vector<int64_t> bytes = bytes_of_choices(config_, job.output.dtypes, 1, possible);
  EXPECT_EQ(std::ranges::adjacent_find(bytes, std::less_equal<>()), bytes.end());
}

TEST_F(MixtureAllocation, ATokenFindsItsExpertsInGroupsOfOneSize) {
  EXPECT_THAT(numbers_of_experts(), ElementsAre(11, 10, 9, 8, 7, 6, 5, 4, 3));
  MixtureSpec& mixture = *config_.layers[0].mlp.mixture;
  mixture.groups = 3;
  EXPECT_THAT(numbers_of_experts(), ElementsAre(9)) << "three experts of one group";
  mixture.groups_per_token = 2;
  EXPECT_THAT(numbers_of_experts(), ElementsAre(9, 6)) << "two experts make a group's score";
  mixture.groups = 1;
  mixture.groups_per_token = 1;
  mixture.experts_per_token = 12;
  EXPECT_THAT(numbers_of_experts(), IsEmpty());
}

TEST_F(MixtureAllocation, ExpertsOrFeaturesGoWhereTheyCostLess) {
  for (const char* output : {"path: o", "path: o, format: stock"}) {
    with_size("size: 0.8", output);
    const ResolvedJob job = resolve();
    const std::set<int64_t> all = {0, 1, 2, 3, 4, 5};
    const Allocation of_experts = allocate(config_, job, curves_of(job, kExperts, all));
    EXPECT_THAT(features(of_experts), Each(96));
    EXPECT_LT(sizes_in_mlps(of_experts, kExperts).front(), 12);
    const Allocation of_features = allocate(config_, job, curves_of(job, kFeatures, all));
    EXPECT_LT(features(of_features).front(), 96);
    EXPECT_THAT(sizes_in_mlps(of_features, kExperts), Each(12));
    EXPECT_LE(size_of(job, of_experts).bytes_fraction(), 0.8);
  }
}

TEST_F(MixtureAllocation, ExpertsGoInTheLayersWhereTheyCostNothing) {
  with_size("size: 0.9");
  const ResolvedJob job = resolve();
  const Allocation chosen = allocate(config_, job, curves_of(job, kExperts, {1, 4}));
  EXPECT_THAT(sizes_in_mlps(chosen, kExperts), ElementsAre(12, 3, 12, 12, 3, 12));
  EXPECT_THAT(plan_table(make_job_plan(config_, job)),
              HasSubstr("\nparts       of a layer up to 96 features, 12 experts"));
}

/// Removing a whole sublayer saves more than its features or channels: queries and keys go, too.
TEST_F(AllocationTest, ASublayerMayGoAltogether) {
  const ResolvedJob job = resolve();
  std::vector<double> layers(6, 1e-3);
  layers[3] = 1e-7;
  std::vector<double> of_values(6, 1.0);
  of_values[4] = 1e-5;
  const Allocation chosen = allocate(config_, job, squares(job, layers, of_values));
  EXPECT_EQ(features(chosen)[3], 0);
  EXPECT_EQ(values(chosen)[4], 0);
  EXPECT_GT(std::ranges::count_if(values(chosen), [](int64_t dim) { return dim > 0; }), 3);
  const NetSize size = size_of(job, chosen);
  const int64_t most = largest_bytes(0.8, size.dense_bytes);
  EXPECT_LE(size.compressed_bytes, most);
  EXPECT_GT(size.compressed_bytes, most - 2 * (3 * 256 * 8));
}

TEST_F(AllocationTest, ASublayerThatAddsABiasStays) {
  for (LayerSpec& layer : config_.layers) layer.mlp.bias = true;
  const ResolvedJob job = resolve();
  EXPECT_EQ(choices(config_, job, 1).back().size, job.mlp->round_to);
  EXPECT_EQ(choices(config_, job, 0).back().size, 0);
}

TEST_F(AllocationTest, AStockModelHasAsManyFeaturesInEveryLayer) {
  with_size("size: 0.8", "path: o, format: stock");
  const ResolvedJob job = resolve();
  EXPECT_TRUE(job.stock_output());
  EXPECT_FALSE(job.output.stock_family) << "its heads are as wide as before";
  const Curves curves = squares(job, {1e-3, 1e-3, 1e-3, 9e-3, 9e-3, 9e-3});
  const Allocation chosen = allocate(config_, job, curves);
  EXPECT_THAT(features(chosen), Each(features(chosen).front()));
  EXPECT_THAT(values(chosen), IsEmpty());
  EXPECT_LE(size_of(job, chosen).bytes_fraction(), 0.8);
  EXPECT_DOUBLE_EQ(chosen.predicted_loss_increase(), best_uniform(job, curves));
  const ModelConfig cut = with_chosen_sizes(config_, job, chosen);
  EXPECT_EQ(mlp_width(cut, 1), features(chosen).front());
  EXPECT_FALSE(cut.form.sizes_by_layer);
  EXPECT_THAT(plan_table(make_job_plan(config_, job)), Not(HasSubstr("\nvalues")));
}

TEST_F(AllocationTest, AStockModelHasOneSizeForMlpsAndOneForExperts) {
  for (std::size_t layer = 2; layer < 6; ++layer) {
    config_.layers[layer].mlp.intermediate_size = 320;
    config_.layers[layer].mlp.mixture = {.experts = 4,
                                         .experts_per_token = 2,
                                         .names = {"mlp", "gate_proj", "up_proj", "down_proj"}};
  }
  with_size("size: 0.8", "path: o, format: stock");
  const ResolvedJob job = resolve();
  for (const double weight : {1e-6, 1.0, 1e6}) {  // weights of the MLPs
    const Curves curves = squares(job, {weight, weight, 1.0, 1.0, 1.0, 1.0});
    double best = 1e300;
    for (std::size_t of_mlps = 0; of_mlps < curves[0].loss_increases.size(); ++of_mlps) {
      for (std::size_t of_experts = 0; of_experts < curves[2].loss_increases.size(); ++of_experts) {
        Allocation found;
        for (const SublayerCurve& curve : curves) {
          const std::size_t at = config_.is_mixture(curve.sublayer) ? of_experts : of_mlps;
          const auto [unit, size] = choices(config_, job, curve.sublayer).at(at);
          found.chosen.push_back({curve.sublayer, unit, size, curve.loss_increases.at(at)});
        }
        if (size_of(job, found).bytes_fraction() > 0.8) continue;
        best = std::min(best, found.predicted_loss_increase());
      }
    }
    const Allocation chosen = allocate(config_, job, curves);
    EXPECT_DOUBLE_EQ(chosen.predicted_loss_increase(), best);
    EXPECT_LE(size_of(job, chosen).bytes_fraction(), 0.8);
    EXPECT_EQ(features(chosen)[0], features(chosen)[1]);
    EXPECT_EQ(features(chosen)[2], features(chosen)[5]);
  }
}

TEST_F(AllocationTest, ASizeThatCannotBeHadIsRefused) {
  spec_.mutable_method()->set_size(0.31);  // both tables take 0.317
  EXPECT_THAT(error(),
              HasSubstr("method.size: 0.31 is not available: the fewest features and value "
                        "channels leave 0.316712"));
  EXPECT_THAT(error(), HasSubstr("{name: slicegpt, size: 0.31}"));
  spec_.mutable_method()->set_size(0.001);  // nor can any width
  EXPECT_THAT(error(), HasSubstr("bytes; give a larger size"));
}

TEST_F(AllocationTest, LossIncreasesOfAnotherModelAreRefused) {
  const ResolvedJob job = resolve();
  const Curves right = squares(job, std::vector<double>(6, 1.0));
  Curves curves = right;
  curves.pop_back();
  EXPECT_THROW(allocate(config_, job, curves), std::invalid_argument);
  curves = right;
  curves[3].loss_increases.pop_back();
  EXPECT_THROW(allocate(config_, job, curves), std::invalid_argument);
  curves = right;
  curves[3].loss_increases[5] = std::nan("");
  EXPECT_THROW(allocate(config_, job, curves), std::invalid_argument);
}

TEST_F(AllocationTest, AttentionsAreSummedBesideMlps) {
  const ResolvedJob any = resolve();
  with_size("size: 0.8", "path: o, format: stock");
  const ResolvedJob stock = resolve();
  EXPECT_EQ(count_cut_sublayers(any, 1, 6), 5);
  EXPECT_EQ(count_cut_sublayers(stock, 1, 6), 3);
  const auto held = [&](const ResolvedJob& job) {
    const ShardPlan plan = make_shard_plan(config_, job);
    return kept_feature_sums(
        RankSizes({config_, job, plan.of_rank(0), DeviceKind::kCpu, Dtype::kFloat32}));
  };
  EXPECT_EQ(held(any) - held(stock), 6 * 8 * 2 * 256 * 256);  // values, and gradients behind them
}

TEST_F(AllocationTest, ThePlanSaysWhatIsKnown) {
  const ResolvedJob job = resolve();
  const std::string table = plan_table(make_job_plan(config_, job));
  EXPECT_THAT(table, HasSubstr("n: sizes by loss, metric fisher, format any, pipeline schedule\n"
                               "target      size 0.8, allocated by loss\n"
                               "nominal     width 256 of 256, 0.0 % narrower\n"));
  EXPECT_THAT(
      table,
      HasSubstr("parts       of a layer up to 768 features, 32 value channels, known once the "
                "activations are\n"));
  EXPECT_THAT(table, HasSubstr("passes      1 over the tokens and 1 back"));
  EXPECT_THAT(table, HasSubstr("compressed  at most 10,595,942 bytes"));
  const auto document = nlohmann::json::parse(plan_to_json(make_job_plan(config_, job)));
  EXPECT_EQ(document["compressed"]["bytes_at_most"], 10'595'942);
  EXPECT_FALSE(document.contains("mlp_width"));
}

}  // namespace
}  // namespace dotresize
