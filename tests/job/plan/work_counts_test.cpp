#include "job/plan/estimate/work_counts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "job/model/read_model_config.h"
#include "job/plan/estimate/hardware.h"
#include "tests/job/model/test_configs.h"

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

INSTANTIATE_TEST_SUITE_P(WorkCounts, MeasuredLayer,
                         testing::Values("llama-3.1-8b", "llama-3.1-70b"), [](const auto& model) {
                           return std::string(model.index == 0 ? "Llama8B" : "Llama70B");
                         });

}  // namespace
}  // namespace dotresize
