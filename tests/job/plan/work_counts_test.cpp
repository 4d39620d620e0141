#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "job/model/read_model_config.h"
#include "job/plan/estimate/estimates.h"
#include "job/plan/estimate/hardware.h"
#include "job/plan/shards/shard_plan.h"
#include "job/plan/steps/maps.h"
#include "tests/job/model/test_configs.h"
#include "tests/job/spec/hardware_text.h"

namespace dotresize {
namespace {

const std::string kSource = DOTRESIZE_SOURCE_DIR;
constexpr double kTokens = 16384.0;
constexpr int64_t kSeqlen = 2048;

/// Returns the measured seconds of each phase of the layer benchmark, on the machine of
/// examples/hardware/cpu.yaml: forward and fold for both sublayers, all others for one junction.
nlohmann::json measured(const std::string& model) {
  const std::string file = kSource + "/bench/results/layer-" + model + "-threads-2.json";
  return nlohmann::json::parse(read_whole_file(file, 1 << 20))["benchmarks"][0];
}

class MeasuredLayer : public testing::TestWithParam<const char*> {
 protected:
  MeasuredLayer() {
    const std::string file = kSource + "/bench/configs/" + GetParam() + ".json";
    config_ = parse_model_config(read_whole_file(file, 1 << 20), file);
    job_ = small_job(config_, 1);
    job_.widths =
        uniform_widths(config_, job_.maps.head_sliced, config_.hidden_size * 4 / 5 / 64 * 64);
    rates_ = rank_rates(read_hardware(kSource + "/examples/hardware/cpu.yaml"), job_);
  }
  void expect_near(const std::string& phase, double seconds) const {
    const double found = measured(GetParam())[phase + "_s"];
    EXPECT_NEAR(seconds / found, 1.0, 0.3) << phase << ": " << found << " s were measured";
  }

  ModelConfig config_;
  ResolvedJob job_;
  RankRates rates_;
};

TEST_P(MeasuredLayer, TookAsLongAsItsCountsSay) {
  double forward = 0.0;
  double fold = 0.0;
  for (const int64_t sublayer : {0, 1}) {
    const ForwardCounts counts = forward_counts(config_, sublayer, widths_of(config_, sublayer),
                                                kTokens, kSeqlen, Dtype::kFloat32);
    forward += counts.gemm / rates_.compute_gemm + counts.attention / rates_.attention +
               counts.bytes / rates_.memory;
    const FoldCounts folding = fold_counts(config_, sublayer, job_.widths.largest());
    fold += (folding.in_proj + folding.out_proj) / rates_.fold_gemm;
  }
  expect_near("forward", forward);
  expect_near("fold", fold);
  const MomentCounts moments = moment_counts(job_);
  expect_near("gram", kTokens * moments.gram / rates_.float64_gemm +
                          kTokens / 1024 *
                              gram_block_bytes(static_cast<double>(config_.hidden_size)) /
                              rates_.memory);
  expect_near("rotate", kTokens * moments.rotate / rates_.float32_gemm);
  expect_near("cost", kTokens * moments.pairs / rates_.l1_cost);
  const SolveCounts solving = solve_counts(job_);
  expect_near("eigen", solving.eigen / rates_.eigen);
  expect_near("qr", solving.qr / rates_.qr);
  expect_near("sinkhorn", solving.sinkhorn / rates_.sinkhorn);
  expect_near("solve", solving.solve / rates_.float64_gemm);
}

/// Operations of the phases that only junctions have, by the time estimate: the pairs of the costs
/// count three times and the bytes of Sinkhorn half, as in estimate_work.
double operations_of_junctions(const ModelConfig& config, const ResolvedJob& job) {
  v1::Hardware hardware = parse_hardware(kPlainCpu, "hw.yaml");
  hardware.set_memory(1e30);  // no time for bytes
  double operations = 0.0;
  for (const auto& [phase, seconds] :
       estimate_time(config, job, make_shard_plan(config, job), hardware).phases) {
    for (const char* counted : {"gram", "rotate", "eigen", "qr", "solve", "describe"}) {
      if (phase == counted) operations += 1e9 * seconds;
    }
    if (phase == "cost") operations += 3e9 * seconds;
    if (phase == "sinkhorn") operations += 0.5e9 * seconds;
  }
  return operations;
}

TEST(WorkCounts, ShardsAreBalancedByTheJunctionsThatTheTimeEstimateCounts) {
  const ModelConfig config = small_llama();
  for (const Method& method : kMethods) {
    ResolvedJob job = small_job(config, 1);
    job.method = method;
    const std::vector<double> work = estimate_work(config, job);
    job.widths.mapped_count = 1;  // sublayers 0 to 10 lose the junction that they write
    const std::vector<double> without = estimate_work(config, job);
    job.widths.mapped_count = 12;
    for (std::size_t s = 0; s < 11; ++s) {
      EXPECT_NEAR((work[s] - without[s]) / (operations_of_junctions(config, job) / 12.0), 1.0, 1e-9)
          << method.name << " " << s;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WorkCounts, MeasuredLayer,
                         testing::Values("llama-3.1-8b", "llama-3.1-70b"), [](const auto& model) {
                           return std::string(model.index == 0 ? "Llama8B" : "Llama70B");
                         });

}  // namespace
}  // namespace dotresize
