#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "job/model/read_model_config.h"
#include "job/plan/resolve_job.h"
#include "job/plan/shard_plan.h"
#include "job/spec/job_file.h"
#include "tests/temporary_directory.h"
#include "worker/calibration/allocate.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/checkpoint/tokens.h"
#include "worker/comm/communicator.h"

namespace dotresize {
namespace {

using testing::Each;

/// Choices for the example model, from few tokens.
class AllocationChoiceTest : public testing::Test {
 protected:
  AllocationChoiceTest() {
    std::filesystem::create_directory(dir_.path() / "journal");
    spec_ = parse_job("name: n\nmodel: {path: " + kModel +
                          "}\noutput: {path: o}\n"
                          "method: {name: slicegpt, size: 0.8, allocate: auto, round_to: 16}\n"
                          "calibration: {tokens: " +
                          kTokens + ", samples: 4, seqlen: 64}\n",
                      "job.yaml", dir_.path())
                .spec;
  }

  /// Starts like a new process, from the content of the journal. `seen`: the result of each trial.
  AllocationChoice& begin(double seen) {
    job_ = resolve_job(spec_, config_);
    plan_ = make_shard_plan(config_, *job_);
    if (short_of_memory_) {
      RankShard& shard = plan_->ranks.front();
      shard.dense_round = shard.keeps_sums = false;
      shard.checkpoints = Checkpoints::kStage;
      shard.cuts_at_once = 5;
      shard.junctions_at_once = 4;
      shard.bases_at_once = 3;
    }
    journal_.emplace(dir_.path() / "journal");
    calibration_.emplace(CalibrationJob{
        .config = config_,
        .reader = reader_,
        .plan = *plan_,
        .journal = *journal_,
        .finished = {},
        .windows = windows().slice(0, 0, 14),
        .map = {.basis = job_->method.basis, .kind = job_->method.map, .metric = job_->maps.metric},
        .widths = job_->widths});
    calibration_->shortcuts = job_->maps.shortcuts;
    const std::vector<int64_t> held_out = {14, 15};
    choice_.emplace(comm_, *calibration_, windows(), held_out, *job_, observer_, clock_,
                    [this, seen](const auto&) {
                      ++trials_;
                      return seen;
                    });
    return *choice_;
  }

  at::Tensor windows() const {
    return calibration_windows(read_tokens(kTokens, config_.vocab_size).tokens, 16, 64);
  }

  /// Returns the rows of an MLP's gate that are left, from the journal.
  at::Tensor gate(const std::string& entry, int64_t layer) const {
    return journal_->get(entry).at("model.layers." + std::to_string(layer) +
                                   ".mlp.gate_proj.weight");
  }

  const std::string kModel = DOTRESIZE_SOURCE_DIR "/examples/docs-llama";
  const std::string kTokens = DOTRESIZE_SOURCE_DIR "/tests/data/calibration.safetensors";
  const c10::InferenceMode no_autograd_;
  TemporaryDirectory dir_;
  v1::JobSpec spec_;
  const ModelConfig config_ = read_model_config(kModel);
  const CheckpointReader reader_{kModel};
  const CalibrationObserver observer_{[](int64_t) {}, [](int64_t) {}, [](int64_t) {}};
  SelfCommunicator comm_;
  PhaseClock clock_;
  std::optional<ResolvedJob> job_;
  std::optional<ShardPlan> plan_;
  std::optional<Journal> journal_;
  std::optional<CalibrationJob> calibration_;
  std::optional<AllocationChoice> choice_;
  int trials_ = 0;
  bool short_of_memory_ = false;
};

TEST_F(AllocationChoiceTest, IsTheSameInManyPassesThatComputeAgain) {
  const Allocation once = begin(0.5).chosen();
  const ModelConfig cut = choice_->cut();
  std::filesystem::remove_all(dir_.path() / "journal");
  std::filesystem::create_directory(dir_.path() / "journal");
  short_of_memory_ = true;
  const Allocation found = begin(0.5).chosen();
  EXPECT_EQ(found.widths.all, once.widths.all);
  EXPECT_EQ(found.features, once.features);
  EXPECT_EQ(found.values, once.values);
  EXPECT_EQ(found.shortcut_ranks, once.shortcut_ranks);
  EXPECT_EQ(found.junction_loss_increases, once.junction_loss_increases);
  EXPECT_EQ(found.mlp_loss_increases, once.mlp_loss_increases);
  EXPECT_EQ(found.shortcut_loss_increases, once.shortcut_loss_increases);
  EXPECT_EQ(choice_->cut().form.intermediate_sizes, cut.form.intermediate_sizes);
  EXPECT_TRUE(journal_->has("dense-3")) << "the choice without maps may be cut after all";
}

TEST_F(AllocationChoiceTest, WhatLosesMoreThanWithoutMapsIsMadeWithoutThem) {
  AllocationChoice& choice = begin(/*seen=*/0.5);
  ASSERT_GT(choice.chosen().widths.mapped_count, 0);
  EXPECT_LT(choice.chosen().predicted_loss_increase(), 0.9 * 0.5);
  EXPECT_FALSE(choice.correct(0.499));

  journal_->put_value("junction-0", nlohmann::json::object());
  AllocationChoice& again = begin(0.5);
  EXPECT_TRUE(again.correct(0.51));
  EXPECT_THAT(again.chosen().widths.all, Each(256));
  EXPECT_EQ(again.chosen().widths.mapped_count, 0);
  EXPECT_NEAR(again.chosen().predicted_loss_increase(), 0.5, 1e-9);
  EXPECT_FALSE(journal_->has("junction-0"));
  EXPECT_FALSE(again.correct(1e9)) << "there is nothing else";
  EXPECT_EQ(again.seen_in_trial(), 0.5);
  again.cut();
  EXPECT_FALSE(journal_->has("dense-3")) << "is of no more use";
  int64_t cut = 0;
  int64_t same = 0;
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    const int64_t features = again.chosen().features[static_cast<size_t>(layer)];
    if (features == config_.intermediate_size) continue;
    const std::string entry = fmt::format("mlp-{}-{}", 2 * layer + 1, features);
    ++cut;
    same += at::equal(gate(entry, layer), gate("trial-" + entry, layer)) ? 1 : 0;
  }
  EXPECT_GT(cut, 0);
  EXPECT_EQ(same, 0) << "other features go, since all windows are seen";

  const AllocationChoice& resumed = begin(0.5);
  EXPECT_EQ(resumed.chosen().features, again.chosen().features);
  EXPECT_EQ(resumed.chosen().widths.mapped_count, 0);
  EXPECT_EQ(trials_, 1);
}

TEST_F(AllocationChoiceTest, WithoutMapsTheCutIsThatOfAJobWithTheseSizes) {
  ASSERT_TRUE(begin(0.5).correct(0.51));
  const ModelConfig cut = choice_->cut();
  std::map<std::string, at::Tensor> chosen;
  const std::set<std::string> entries = journal_->entries();
  for (const std::string& entry : entries) {
    if (!entry.starts_with("mlp-")) continue;
    for (const auto& [name, tensor] : journal_->get(entry)) chosen[name] = tensor;
    journal_->remove(entry);
  }
  ASSERT_FALSE(chosen.empty());
  CalibrationJob direct = *calibration_;
  direct.windows = windows();
  direct.refits = true;  // refits with all windows in order
  cut_sublayers(comm_, direct, *job_, cut, observer_, clock_);
  for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
    const int64_t features = cut.form.intermediate_sizes[static_cast<size_t>(layer)];
    if (features == config_.intermediate_size) continue;
    const auto found = journal_->get(fmt::format("mlp-{}-{}", 2 * layer + 1, features));
    for (const auto& [name, tensor] : found) {
      if (!name.starts_with("model.layers.")) continue;
      const at::Tensor difference = (tensor - chosen.at(name)).abs().max();
      EXPECT_LT(difference.item<double>(), 1e-4) << name;
    }
  }
}

TEST_F(AllocationChoiceTest, WhereMapsAreNeededTheyAreChosenOnceMore) {
  spec_.mutable_method()->set_size(0.31);  // both tables of the dense model take 0.317
  AllocationChoice& choice = begin(0.5);
  EXPECT_EQ(trials_, 0);
  const Allocation first = choice.chosen();
  const double predicted = first.predicted_loss_increase();
  EXPECT_FALSE(choice.correct(1.9 * predicted));
  AllocationChoice& resumed = begin(0.5);
  EXPECT_TRUE(resumed.correct(10.0 * predicted));
  EXPECT_GT(resumed.chosen().predicted_loss_increase(), 2.0 * predicted);
  EXPECT_NE(resumed.chosen().widths.all, first.widths.all);
  EXPECT_FALSE(resumed.correct(100.0 * predicted)) << "once";
}

}  // namespace
}  // namespace dotresize
