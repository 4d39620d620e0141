#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "job/model/model_size.h"
#include "job/plan/mlps_by_loss.h"
#include "job/plan/net_size.h"
#include "job/plan/plan_table.h"
#include "job/report/model_card.h"
#include "job/report/report.h"
#include "tests/job/resolve_job.h"

namespace dotresize {
namespace {

using testing::HasSubstr;
using testing::Not;

class MlpWidths : public ResolveJob {};

TEST_F(MlpWidths, MlpsKeepMultiplesOfRoundTo) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\n"
      "method: {name: magnitude, sparsity: 0.2, mlp: {sparsity: 0.17}}\n"
      "calibration: {text: [c.txt]}\n");
  const ResolvedJob job = resolve();
  EXPECT_EQ(job.schedule, schedule_named("token_parallel"));
  ASSERT_TRUE(job.mlp);
  EXPECT_EQ(job.mlp->width, 632);  // of 768, in steps of 8
  EXPECT_EQ(job.mlp->expert_width, 0);
}

TEST_F(MlpWidths, ASizeCountsMlpsThatAreCut) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\n"
      "method: {name: slicegpt, size: 0.8, map_sharing: model}\ncalibration: {text: [c.txt]}\n");
  const int64_t width = resolve().widths.largest();
  spec_.mutable_method()->mutable_mlp()->set_width(640);
  EXPECT_GT(resolve().widths.largest(), width);
}

TEST_F(MlpWidths, AnMlpOfFullWidthIsNotCut) {
  spec_.mutable_method()->mutable_mlp()->set_width(768);
  EXPECT_FALSE(resolve().mlp);
  spec_.mutable_method()->mutable_mlp()->set_width(769);
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: 769 is more than the model has, 768"));
  spec_.mutable_method()->mutable_mlp()->set_sparsity(0.999);
  EXPECT_THAT(error(), HasSubstr("method.mlp.sparsity: 0.999 of 768 features leaves no multiple"));
}

TEST_F(MlpWidths, MlpsAndExpertsAreCutByTheSameFraction) {
  config_ = parse_model_config(kQwen3MoeConfig, "config.json");
  config_.mixture->layers.front() = false;
  spec_.mutable_method()->mutable_mlp()->set_sparsity(0.5);
  const ResolvedJob job = resolve();
  ASSERT_TRUE(job.mlp);
  EXPECT_EQ(job.mlp->width, config_.intermediate_size / 2);
  EXPECT_EQ(job.mlp->expert_width, config_.mixture->intermediate_size / 2);
  spec_.mutable_method()->mutable_mlp()->clear_sparsity();
  spec_.mutable_method()->mutable_mlp()->set_width(64);
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: the model has both MLPs and experts"));
}

class MlpsByLoss : public MlpWidths {
 protected:
  MlpsByLoss() { with_head("sliced"); }

  void with_head(const std::string& head) {
    text(
        "name: n\nmodel: {path: m}\noutput: {path: o}\ncalibration: {text: [c.txt]}\n"
        "method: {name: slicegpt, width: 212, metric: fisher, head: " +
        head + ", mlp: {width: 704, widths: by_loss}}\n");
  }

  /// At each possible width of each layer: in one layer a step costs a thousandth.
  std::vector<std::vector<double>> rises(const ResolvedJob& job, int64_t cheap_layer) const {
    std::vector<std::vector<double>> rises;
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const double step = layer == cheap_layer ? 1e-3 : 1.0;
      std::vector<double>& of_layer = rises.emplace_back();
      for (const int64_t width : possible_mlp_widths(config_, *job.mlp, 2 * layer + 1)) {
        const auto removed = static_cast<double>(mlp_width(config_, 2 * layer + 1) - width);
        of_layer.push_back(step * removed * removed);
      }
    }
    return rises;
  }
  int64_t parameters(const ResolvedJob& job, const ModelConfig& cut) const {
    return stored_parameters(output_model_config(cut, job, job.widths));
  }
  /// Of the plan.
  nlohmann::json compressed(const ResolvedJob& job) const {
    return nlohmann::json::parse(plan_to_json(config_, job, make_shard_plan(config_, job)))
        .at("compressed");
  }
};

TEST_F(MlpsByLoss, FeaturesGoWhereTheyCostLeast) {
  const ResolvedJob job = resolve();
  const std::vector<int64_t> possible = possible_mlp_widths(config_, *job.mlp, 3);
  EXPECT_EQ(possible.front(), 768);
  EXPECT_EQ(possible[1], 760);
  EXPECT_EQ(possible.back(), 768 - 6 * 64);  // all that is removed comes of this layer
  const ModelConfig cut = with_mlps_by_loss(config_, job, rises(job, 1));
  EXPECT_THAT(cut.intermediate_sizes, testing::ElementsAre(768, 384, 768, 768, 768, 768));
}

TEST_F(MlpsByLoss, OfEqualCostAllAreCutAlike) {
  const ResolvedJob job = resolve();
  const ModelConfig cut = with_mlps_by_loss(config_, job, rises(job, -1));
  EXPECT_THAT(cut.intermediate_sizes, testing::Each(704));
}

TEST_F(MlpsByLoss, TheResultIsAsLargeAsThePlanSays) {
  const ResolvedJob job = resolve();
  ASSERT_TRUE(mlp_parameters_known(config_, job));
  for (const int64_t cheap : {0, 1, 5}) {
    const ModelConfig cut = with_mlps_by_loss(config_, job, rises(job, cheap));
    EXPECT_EQ(parameters(job, cut), compressed(job).at("parameters"));
  }
  EXPECT_FALSE(compressed(job).contains("bytes_at_most"));
}

TEST_F(MlpsByLoss, BesideADenseHeadItIsNoLarger) {
  with_head("dense");  // whose last MLP writes 256 channels
  const ResolvedJob job = resolve();
  EXPECT_FALSE(mlp_parameters_known(config_, job));
  const int64_t most = compressed(job).at("parameters");
  EXPECT_EQ(compressed(job).at("bytes_at_most"), 2 * most);
  EXPECT_THAT(plan_table(config_, job, make_shard_plan(config_, job)),
              HasSubstr("\nnet size    at most "));
  for (const int64_t cheap : {0, 5}) {
    const ModelConfig cut = with_mlps_by_loss(config_, job, rises(job, cheap));
    EXPECT_LE(parameters(job, cut), most);
    EXPECT_GT(parameters(job, cut), most - 8 * (212 + 212 + 256));
  }
}

TEST_F(MlpsByLoss, AWidthThatIsNoMultipleIsAnAverage) {
  spec_.mutable_method()->mutable_mlp()->set_width(701);
  const ResolvedJob job = resolve();
  EXPECT_FALSE(mlp_parameters_known(config_, job));
  const ModelConfig cut = with_mlps_by_loss(config_, job, rises(job, 2));
  EXPECT_LE(parameters(job, cut), compressed(job).at("parameters"));
  for (const int64_t width : cut.intermediate_sizes) EXPECT_EQ(width % 8, 0);
}

TEST_F(MlpsByLoss, AnMlpKeepsAMultipleOfRoundToAtLeast) {
  spec_.mutable_method()->mutable_mlp()->set_width(7);
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: 7 is below 8, method.round_to"));
}

TEST_F(MlpsByLoss, TokensPassTwiceAndMemoryIsABound) {
  const ResolvedJob by_loss = resolve();
  spec_.mutable_method()->mutable_mlp()->set_widths(v1::Mlp::uniform);
  const ResolvedJob uniform = resolve();
  const ShardPlan plan = make_shard_plan(config_, by_loss);
  EXPECT_EQ(plan.cut_passes(), 2);
  EXPECT_EQ(make_shard_plan(config_, uniform).cut_passes(), 1);
  EXPECT_GE(peak_memory(plan), peak_memory(make_shard_plan(config_, uniform)));
  EXPECT_EQ(with_widest_mlps(config_, by_loss.mlp).intermediate_size, 768);
  EXPECT_EQ(with_widest_mlps(config_, uniform.mlp).intermediate_size, 704);
}

/// Of both kinds: the first layer has an MLP, the others experts.
struct MixtureOfBoth {
  MixtureOfBoth() {
    config.mixture->layers.front() = false;
    job = small_job(config, 1);
    job.mlp = MlpTarget{{}, config.intermediate_size / 2, config.mixture->intermediate_size / 4};
  }
  ModelConfig config = parse_model_config(kQwen3MoeConfig, "config.json");
  ResolvedJob job;
};

TEST(MlpWidthsTexts, PlanAndModelCardSayWhatIsLeft) {
  const MixtureOfBoth of;
  const int64_t dense = of.config.intermediate_size;
  const int64_t expert = of.config.mixture->intermediate_size;
  EXPECT_THAT(plan_table(of.config, of.job, make_shard_plan(of.config, of.job)),
              HasSubstr(fmt::format("mlp         {} of {} features, {} of {} of each expert",
                                    dense / 2, dense, expert / 4, expert)));
  Report report;
  report.job = of.job;
  report.widths = of.job.widths;
  const std::string card = model_card(report, of.config);
  EXPECT_THAT(card,
              HasSubstr(fmt::format("Each MLP was cut from {} to {} features.", dense, dense / 2)));
  EXPECT_THAT(card, HasSubstr(fmt::format("Each expert was cut from {} to {} features.", expert,
                                          expert / 4)));
  report.job.mlp->by_loss = true;
  EXPECT_THAT(model_card(report, of.config), HasSubstr(" features on average, those of each"));
  EXPECT_EQ(nlohmann::json::parse(report_to_json(report)).at("method").at("mlp").at("widths"),
            "by_loss");
  report.job.mlp.reset();
  EXPECT_THAT(model_card(report, of.config), Not(HasSubstr("was cut from")));
}

TEST(MlpsByLossOfAMixture, MlpsAndExpertsShareWhatIsLeft) {
  MixtureOfBoth of;
  of.job.mlp->by_loss = true;
  of.job.mlp->round_to = 64;
  std::vector<std::vector<double>> rises;
  for (int64_t layer = 0; layer < of.config.num_layers; ++layer) {
    const auto widths = possible_mlp_widths(of.config, *of.job.mlp, 2 * layer + 1);
    std::vector<double>& of_layer = rises.emplace_back();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      of_layer.push_back(static_cast<double>(i * static_cast<std::size_t>(1 + layer % 3)));
    }
  }
  const ModelConfig cut = with_mlps_by_loss(of.config, of.job, rises);
  const auto parameters = [&](const ModelConfig& config) {
    return stored_parameters(output_model_config(config, of.job, of.job.widths));
  };
  EXPECT_LE(parameters(cut), parameters(of.config));
  EXPECT_EQ(cut.intermediate_sizes[3], 64);  // a step of which costs a third of one of layer 44
  EXPECT_EQ(cut.intermediate_sizes[44], of.config.mixture->intermediate_size);
  EXPECT_EQ(cut.intermediate_sizes[0], of.config.intermediate_size);  // few parameters a step
}

TEST(MlpWidthsTexts, ExpertsThatNoTokenHasChosenAreWarnedOf) {
  Report report;
  report.dense.parameters = report.dense.bytes = 1000;
  report.compressed.parameters = report.compressed.bytes = 800;
  report.mlps = {{"layers.0.mlp", 8, 16, 0.1, 0}, {"layers.1.mlp", 8, 16, 0.1, 3}};
  EXPECT_THAT(
      warnings_of(report),
      testing::ElementsAre("layers.1.mlp: no calibration token has chosen 3 of its experts, "
                           "whose features were cut by the size of down's columns"));
}

}  // namespace
}  // namespace dotresize
