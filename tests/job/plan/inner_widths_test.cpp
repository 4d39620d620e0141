#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <utility>

#include "job/model/read_model_config.h"
#include "job/plan/plan_table.h"
#include "job/plan/shards/rank_shard.h"
#include "job/report/report.h"
#include "tests/job/plan/resolve_job.h"

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
  EXPECT_EQ(job.mlp->width, 632);  // 768 features, in steps of 8
  EXPECT_EQ(job.mlp->expert_width, 0);
}

TEST_F(MlpWidths, ASizeCountsMlpsThatAreCut) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o, format: stock}\n"
      "method: {name: slicegpt, size: 0.8}\ncalibration: {text: [c.txt]}\n");
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

void make_first_mlp_dense(ModelConfig& config) {
  config.layers.front().mlp = {.intermediate_size = 6144};
}

TEST_F(MlpWidths, MlpsAndExpertsAreCutByTheSameFraction) {
  config_ = parse_model_config(kQwen3MoeConfig, "config.json");
  const int64_t dense = 6144;
  make_first_mlp_dense(config_);
  spec_.mutable_method()->mutable_mlp()->set_sparsity(0.5);
  const ResolvedJob job = resolve();
  ASSERT_TRUE(job.mlp);
  EXPECT_EQ(job.mlp->width, dense / 2);
  EXPECT_EQ(job.mlp->expert_width, mlp_width(config_, 3) / 2);
  spec_.mutable_method()->mutable_mlp()->clear_sparsity();
  spec_.mutable_method()->mutable_mlp()->set_width(64);
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: the model has both MLPs and experts"));
}

/// A job of a stock mixture: hidden size 2048, experts of 768 features.
class StockMixture : public MlpWidths {
 protected:
  StockMixture() {
    config_ = parse_model_config(kQwen3MoeConfig, "config.json");
    spec_.mutable_output()->set_format(v1::Output::stock);
  }
  void method(const std::string& yaml) {
    text("name: n\nmodel: {path: m}\noutput: {path: o, format: stock}\nmethod: " + yaml +
         "\ncalibration: {text: [c.txt]}\n");
  }
};

TEST_F(StockMixture, RowsOfItsExpertsAreWholeBlocksOf16Bytes) {
  for (const auto& [dtype, step] : {std::pair(Dtype::kFloat32, 4), {Dtype::kBFloat16, 8}}) {
    config_.files.dtypes = {dtype, {}};
    method("{size: 0.8, round_to: 1}");
    EXPECT_EQ(resolve().mlp->round_to, step);
    method("{size: 0.8, round_to: 6}");
    EXPECT_EQ(resolve().mlp->round_to, std::lcm(6, step));
    method("{size: 0.8, round_to: 32}");
    EXPECT_EQ(resolve().mlp->round_to, 32);
    method("{sparsity: 0.1012, round_to: 1, mlp: {sparsity: 0.1012}}");
    EXPECT_EQ(resolve().widths.largest() % step, 0);
    EXPECT_EQ(resolve().mlp->expert_width % step, 0);
    EXPECT_GT(resolve().widths.largest(), 2048 * 0.8988 - step);
  }
}

TEST_F(StockMixture, AWidthWithPartsOfBlocksIsRefusedByName) {
  config_.files.dtypes = {Dtype::kBFloat16, {}};
  method("{width: 2044}");
  EXPECT_THAT(error(), HasSubstr("method.width: 2044 is not a multiple of 8, as transformers needs "
                                 "the rows of experts in bfloat16 (output.format is stock)"));
  method("{width: 2040, mlp: {width: 764}}");
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: 764 is not a multiple of 8, as transformers"));
  config_.files.dtypes = {Dtype::kFloat32, {}};
  EXPECT_EQ(resolve().mlp->expert_width, 764);
  spec_.mutable_output()->set_dtype(v1::Output::bfloat16);
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: 764"));
}

TEST_F(StockMixture, WidthsOfTheSourceAndOfOtherOutputsStayAsTheyAre) {
  config_.files.dtypes = {Dtype::kBFloat16, {}};
  for (LayerSpec& layer : config_.layers) layer.mlp.intermediate_size = 764;
  method("{width: 2040, mlp: {width: 764}}");
  EXPECT_FALSE(resolve().mlp);
  method("{width: 2040, mlp: {width: 700}}");
  EXPECT_THAT(error(), HasSubstr("method.mlp.width: 700"));
  spec_.mutable_output()->clear_format();
  EXPECT_EQ(resolve().mlp->expert_width, 700);
  method("{width: 2044}");
  config_ = small_llama();
  spec_.mutable_method()->set_width(252);
  config_.family = "mistral";
  EXPECT_EQ(resolve().widths.largest(), 252);
}

/// A model with both kinds: an MLP in the first layer, experts in the others.
struct MixtureOfBoth {
  MixtureOfBoth() {
    make_first_mlp_dense(config);
    job = small_job(config, 1);
    job.mlp = MlpTarget{{}, mlp_width(config, 1) / 2, mlp_width(config, 3) / 4};
  }
  ModelConfig config = parse_model_config(kQwen3MoeConfig, "config.json");
  ResolvedJob job;
};

TEST(MlpWidthsTexts, PlanAndModelCardSayWhatIsLeft) {
  const MixtureOfBoth of;
  const int64_t dense = mlp_width(of.config, 1);
  const int64_t expert = mlp_width(of.config, 3);
  EXPECT_THAT(plan_table(make_job_plan(of.config, of.job)),
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
  report.job.mlp.reset();
  EXPECT_THAT(model_card(report, of.config), Not(HasSubstr("was cut from")));
}

TEST(MlpWidthsTexts, ExpertsThatNoTokenHasChosenAreWarnedOf) {
  Report report;
  report.dense.parameters = report.dense.bytes = 1000;
  report.compressed.parameters = report.compressed.bytes = 800;
  report.cuts = {{"layers.0.mlp", {{&kFeatures, 8, 16}}, 0.1, 0},
                 {"layers.1.mlp", {{&kFeatures, 8, 16}}, 0.1, 3}};
  EXPECT_THAT(
      warnings_of(report),
      testing::ElementsAre("layers.1.mlp: no calibration token has chosen 3 of its experts, "
                           "whose features were cut by the size of down's columns"));
}

}  // namespace
}  // namespace dotresize
