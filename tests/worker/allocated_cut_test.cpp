#include "worker/calibration/allocated_cut.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/plan/resolve/resolve_job.h"
#include "job/plan/shards/shard_plan.h"
#include "job/plan/steps/step.h"
#include "job/spec/job_file.h"
#include "tests/temporary_directory.h"
#include "worker/calibration/sublayer_cuts.h"
#include "worker/checkpoint/tokens.h"
#include "worker/comm/communicator.h"

namespace dotresize {
namespace {

using testing::Each;
using testing::Field;
using testing::IsEmpty;

std::vector<int64_t> sizes_of(const Allocation& allocation) {
  std::vector<int64_t> sizes;
  std::ranges::transform(allocation.chosen, std::back_inserter(sizes), &ChosenSize::size);
  return sizes;
}

/// Sizes by loss, from few tokens.
class AllocatedCutTest : public testing::Test {
 protected:
  /// `model`: with the vocabulary of the example.
  explicit AllocatedCutTest(std::string model = DOTRESIZE_SOURCE_DIR "/examples/docs-llama")
      : kModel(std::move(model)) {
    new_journal();
    spec_ = parse_job("name: n\nmodel: {path: " + kModel +
                          "}\noutput: {path: o}\n"
                          "method: {size: 0.8, round_to: 16}\n"
                          "calibration: {tokens: " +
                          kTokens + ", samples: 4, seqlen: 64}\n",
                      "job.yaml", dir_.path())
                .spec;
  }

  void new_journal() {
    std::filesystem::remove_all(dir_.path() / "journal");
    std::filesystem::create_directory(dir_.path() / "journal");
  }

  /// Runs like a new process, with the content of the journal. `seen`: the result of the trial.
  AllocatedCut run(double seen = 0.5) {
    job_ = resolve_job(spec_, config_);
    plan_ = make_shard_plan(config_, *job_);
    if (short_of_memory_) {
      RankShard& shard = plan_->ranks.front();
      shard.keeps_sums = false;
      shard.checkpoints = Checkpoints::kStage;
      shard.cuts_at_once = 5;
      plan_->cut_groups = 3;
    }
    journal_.emplace(dir_.path() / "journal");
    tokens_ = 0;
    operations_ = 0.0;
    const CalibrationObserver observer{[this](int64_t tokens) { tokens_ += tokens; },
                                       [](int64_t) {}, [](int64_t) {},
                                       [this](double operations) { operations_ += operations; }};
    const AllocationWindows split{{windows().slice(0, 0, 14), numbers(0, 14)},
                                  {windows().slice(0, 14, 16), numbers(14, 16)}};
    return cut_by_loss(comm_, dense(split.fitted.windows), *job_, *journal_, split, observer,
                       clock_, [this, seen](const ModelConfig&) {
                         ++trials_;
                         if (fails_in_trial_) throw std::runtime_error("killed");
                         return seen;
                       });
  }

  CalibrationJob dense(const at::Tensor& windows) {
    return {
        .config = config_,
        .reader = reader_,
        .plan = *plan_,
        .journal = *journal_,
        .finished = {},
        .windows = windows,
        .map = {.basis = job_->method.basis, .kind = job_->method.map, .metric = job_->maps.metric},
        .widths = job_->widths};
  }

  at::Tensor windows() const {
    return calibration_windows(read_tokens(kTokens, config_.vocab_size).tokens, 16, 64);
  }

  static std::vector<int64_t> numbers(int64_t first, int64_t end) {
    std::vector<int64_t> all;
    for (int64_t number = first; number < end; ++number) all.push_back(number);
    return all;
  }

  /// Returns the tensors of all cuts for the output, by entry and name.
  std::map<std::string, at::Tensor> cuts(const char* kinds = "mlp- values-") const {
    std::map<std::string, at::Tensor> found;
    for (const std::string& entry : journal_->entries()) {
      const std::string kind = entry.substr(0, entry.find('-')) + "-";
      if (std::string(kinds).find(kind) == std::string::npos) continue;
      for (const auto& [name, tensor] : journal_->get(entry)) {
        if (name.starts_with("model.")) found[entry + " " + name] = tensor;
      }
    }
    return found;
  }

  const std::string kModel;
  const std::string kTokens = DOTRESIZE_SOURCE_DIR "/tests/data/calibration.safetensors";
  const c10::InferenceMode no_autograd_;
  TemporaryDirectory dir_;
  v1::JobSpec spec_;
  const ModelConfig config_ = read_model_config(kModel);
  const CheckpointReader reader_{kModel};
  SelfCommunicator comm_;
  PhaseClock clock_;
  std::optional<ResolvedJob> job_;
  std::optional<ShardPlan> plan_;
  std::optional<Journal> journal_;
  int trials_ = 0;
  int64_t tokens_ = 0;
  double operations_ = 0.0;
  bool short_of_memory_ = false;
  bool fails_in_trial_ = false;
};

TEST_F(AllocatedCutTest, IsTheSameInManyPassesThatComputeAgain) {
  const AllocatedCut once = run();
  const auto cuts_once = cuts();
  ASSERT_GT(cuts_once.size(), 0u);
  // All tokens go forward and back once, and the held-out ones forward once more.
  EXPECT_EQ(tokens_, (2 * 16 + 2) * 64);
  new_journal();
  short_of_memory_ = true;
  const AllocatedCut found = run();
  EXPECT_EQ(sizes_of(found.allocation), sizes_of(once.allocation));
  EXPECT_EQ(found.allocation.predicted_loss_increase(), once.allocation.predicted_loss_increase());
  const auto cuts_again = cuts();
  ASSERT_EQ(cuts_again.size(), cuts_once.size());
  for (const auto& [name, tensor] : cuts_once) {
    EXPECT_TRUE(at::equal(cuts_again.at(name), tensor)) << name;
  }
}

TEST_F(AllocatedCutTest, ProgressSeesAllOperationsOfTheCutsThatAreMade) {
  const AllocatedCut found = run();
  double expected = 0.0;
  for (const ChosenSize& one : found.allocation.chosen) {
    const CutOperations operations = cut_operations(config_, *job_, one.sublayer);
    expected += operations.curve;
    const auto layer = static_cast<size_t>(layer_of(one.sublayer));
    if (one.size < one.unit->size(config_.layers.at(layer))) {
      expected += operations.trial + operations.output;
    }
  }
  EXPECT_NEAR(operations_, expected, 1e-9 * expected);
}

TEST_F(AllocatedCutTest, PredictionsAgreeWithTheTrial) {
  EXPECT_NEAR(run(/*seen=*/0.5).allocation.predicted_loss_increase(), 0.5, 1e-9);
  EXPECT_EQ(trials_, 1);
  EXPECT_NEAR(run(/*seen=*/0.7).allocation.predicted_loss_increase(), 0.5, 1e-9);
  EXPECT_EQ(trials_, 1) << "the journal keeps the result";
}

TEST_F(AllocatedCutTest, OtherFeaturesGoOnceAllWindowsAreSeen) {
  const AllocatedCut found = run();
  int64_t cut = 0;
  int64_t same = 0;
  for (const ChosenSize& one : found.allocation.in(/*attentions=*/false)) {
    if (one.size == mlp_width(config_, one.sublayer)) continue;
    const std::string entry = fmt::format("mlp-{}-{}", one.sublayer, one.size);
    const std::string gate =
        fmt::format("model.layers.{}.mlp.gate_proj.weight", layer_of(one.sublayer));
    ++cut;
    same += at::equal(journal_->get(entry).at(gate), journal_->get("trial-" + entry).at(gate));
  }
  EXPECT_GT(cut, 0);
  EXPECT_EQ(same, 0);
}

TEST_F(AllocatedCutTest, TheCutIsThatOfAJobWithTheseSizes) {
  const AllocatedCut found = run();
  const auto chosen = cuts("mlp-");
  ASSERT_FALSE(chosen.empty());
  for (const std::string& entry : std::set<std::string>(journal_->entries())) {
    if (entry.starts_with("mlp-")) journal_->remove(entry);
  }
  const CalibrationObserver observer{[](int64_t) {}, [](int64_t) {}, [](int64_t) {}};
  const CutSums all{.rounds = {{windows(), numbers(0, 16), /*gradients=*/true}},
                    .tokens = windows().numel()};
  cut_sublayers(comm_, dense(windows()), *job_, found.config, all, observer, clock_);
  for (const auto& [name, tensor] : cuts("mlp-")) {
    const at::Tensor difference = (tensor - chosen.at(name)).abs().max();
    EXPECT_LT(difference.item<double>(), 1e-4) << name;
  }
}

TEST_F(AllocatedCutTest, AKilledRunGoesOnToTheSameCut) {
  const AllocatedCut whole = run();
  const auto expected = cuts();
  new_journal();
  fails_in_trial_ = true;
  EXPECT_THROW(run(), std::runtime_error);
  fails_in_trial_ = false;
  journal_->remove("curve-3");  // another kill, before this curve
  journal_->remove("gradients-6");
  journal_->remove("held-out-gradients-7");
  EXPECT_EQ(sizes_of(run().allocation), sizes_of(whole.allocation));
  for (const auto& [name, tensor] : cuts())
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
}

TEST_F(AllocatedCutTest, AStockModelKeepsEquallyManyFeaturesInAllLayers) {
  spec_.mutable_output()->set_format(v1::Output::stock);
  const AllocatedCut found = run();
  EXPECT_LT(mlp_width(found.config, 1), mlp_width(config_, 1));
  EXPECT_THAT(found.allocation.chosen, Each(Field(&ChosenSize::size, mlp_width(found.config, 1))));
  EXPECT_FALSE(found.config.form.sizes_by_layer);
  EXPECT_THAT(found.allocation.in(/*attentions=*/true), IsEmpty());
}

/// Directory of a mixture with random weights. The first experts of each layer add less to its
/// output than the last ones.
struct RandomMixture {
  RandomMixture() {
    at::manual_seed(1);
    const std::string json = R"({"model_type": "qwen3_moe", "hidden_size": 32, "vocab_size": 4096,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
        "intermediate_size": 64, "moe_intermediate_size": 48, "num_experts": 6,
        "num_experts_per_tok": 2, "norm_topk_prob": true, "tie_word_embeddings": true})";
    std::ofstream(source_.path() / "config.json") << json;
    std::map<std::string, at::Tensor> tensors;
    for (const auto& [name, shape] : expected_shapes(parse_model_config(json, "config.json"))) {
      const bool cheap =
          name.find("experts.0.down") != name.npos || name.find("experts.1.down") != name.npos;
      const double scale = (cheap ? 0.03 : 1.0) / std::sqrt(static_cast<double>(shape.back()));
      tensors[name] = shape.size() == 1 ? at::ones(shape) : at::randn(shape) * scale;
    }
    Journal(source_.path()).put("model", tensors);
  }

  TemporaryDirectory source_;
};

class AllocatedMixtureTest : protected RandomMixture, public AllocatedCutTest {
 protected:
  AllocatedMixtureTest() : AllocatedCutTest(source_.path()) {
    spec_.mutable_method()->set_size(0.905);  // two experts of each layer are 9.6 %
  }
};

TEST_F(AllocatedMixtureTest, CheapExpertsGoWithTheirRowsOfTheRouter) {
  const AllocatedCut found = run();
  ASSERT_EQ(kExperts.size(found.config.layers[0]), 4);
  const std::map<std::string, at::Tensor> tensors = journal_->get("experts-1-4");
  const auto dense = [&](const std::string& name) {
    return reader_.get("model.layers.0.mlp." + name, reader_.shape("model.layers.0.mlp." + name));
  };
  EXPECT_TRUE(
      at::equal(tensors.at("model.layers.0.mlp.gate.weight"), dense("gate.weight").slice(0, 2, 6)));
  for (const std::string part : {"gate_proj", "up_proj", "down_proj"}) {
    for (const int expert : {0, 1, 2, 3}) {
      EXPECT_TRUE(at::equal(
          tensors.at(fmt::format("model.layers.0.mlp.experts.{}.{}.weight", expert, part)),
          dense(fmt::format("experts.{}.{}.weight", expert + 2, part))));
    }
  }
  EXPECT_EQ(cut_diagnostics(*journal_, config_, found.config, 1).unseen_experts, 0);
}

TEST_F(AllocatedMixtureTest, AKilledRunGoesOnToTheSameExperts) {
  const AllocatedCut whole = run();
  const auto expected = cuts("mlp- values- experts-");
  ASSERT_FALSE(cuts("experts-").empty());
  new_journal();
  fails_in_trial_ = true;
  EXPECT_THROW(run(), std::runtime_error);
  fails_in_trial_ = false;
  journal_->remove("curve-3");
  short_of_memory_ = true;
  EXPECT_EQ(sizes_of(run().allocation), sizes_of(whole.allocation));
  const auto found = cuts("mlp- values- experts-");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : found) {
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
  }
}

TEST_F(AllocatedMixtureTest, AStockModelKeepsEquallyManyExpertsInAllLayers) {
  spec_.mutable_output()->set_format(v1::Output::stock);
  const AllocatedCut found = run();
  for (const LayerSpec& layer : found.config.layers) {
    EXPECT_EQ(kExperts.size(layer), 4);
    EXPECT_EQ(kFeatures.size(layer), 48);
  }
}

TEST(ExpertCurve, AddsUpTheCheapestExpertsOfEachGroup) {
  const MixtureSpec mixture{.experts = 6, .experts_per_token = 1, .groups = 2};
  const std::vector<double> costs = {3.0, 0.0, 2.0, 9.0, 8.0, 7.0, /*shared=*/100.0};
  EXPECT_THAT(expert_curve(mixture, costs, {6, 4, 2}), testing::ElementsAre(0.0, 7.0, 17.0));
  const MixtureSpec one_group{.experts = 6, .experts_per_token = 1};
  EXPECT_THAT(expert_curve(one_group, costs, {5, 4, 3}), testing::ElementsAre(0.0, 2.0, 5.0));
}

TEST(ExpertCurve, AnExpertCostsTheSquareOfItsOutputInTheMetric) {
  at::manual_seed(2);
  const at::Tensor h = at::randn({50, 6}, at::kDouble);
  const at::Tensor weight = at::randn({4, 6}, at::kDouble);
  const at::Tensor L = at::randn({4, 4}, at::kDouble).tril();
  const at::Tensor output = at::matmul(h, weight.t());
  const at::Tensor gram = at::matmul(h.t(), h) / 50;
  EXPECT_NEAR(cost_of_expert({gram, weight, L}),
              at::matmul(output, L).square().sum().item<double>() / 50, 1e-10);
  EXPECT_NEAR(cost_of_expert({gram, weight, {}}), output.square().sum().item<double>() / 50, 1e-10);
  EXPECT_EQ(cost_of_expert({at::zeros_like(gram), weight, L}), 0.0) << "no token chooses it";
}

}  // namespace
}  // namespace dotresize
