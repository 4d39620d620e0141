#include "base/errors.h"
#include "job/model/read_model_config.h"
#include "job/plan/plan_job.h"
#include "job/plan/plan_table.h"
#include "job/spec/job_file.h"
#include "tests/fuzz/targets.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

constexpr int64_t kMaxPlannedLayers = 8;  // planning more is slow without optimisation

const char* const kJobs[] = {
    "method: {sparsity: 0.2}",
    "method: {name: slicegpt, size: 0.8, metric: fisher, mlp: {sparsity: 0.1}}",
    "method: {name: dotresize, width: 1, allow_larger: true}"};

/// Plans a few jobs. The model may refuse each of them.
void plan_jobs(const ModelConfig& config) {
  static const TemporaryDirectory dir;
  static const auto tokens = dir.write("tokens.safetensors", "");
  for (const std::string method : kJobs) {
    const v1::JobSpec spec =
        parse_job(
            "name: n\nmodel: {path: m}\noutput: {path: o}\nresources: {ranks: 2, memory: 64GiB}\n"
            "calibration: {tokens: tokens.safetensors}\nevaluation: {tokens: "
            "tokens.safetensors}\n" +
                method + "\n",
            "job.yaml", dir.path())
            .spec;
    try {
      const JobPlan plan = plan_job(spec, config);
      for (const RankShard& rank : plan.shards.ranks) {
        require(rank.size.parameters >= 0 && rank.size.bytes >= 0 && rank.peak_memory_bytes > 0,
                "sizes of a plan are within int64");
      }
      require(!plan_table(plan).empty(), "a plan has a table");
    } catch (const InputError&) {
      continue;
    }
  }
}

}  // namespace

void fuzz_config(const std::string& bytes) {
  try {
    const ModelConfig config = parse_model_config(bytes, "config.json");
    if (config.num_layers() <= kMaxPlannedLayers) plan_jobs(config);
  } catch (const InputError&) {
    return;
  }
}

}  // namespace dotresize
