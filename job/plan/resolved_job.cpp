#include "job/plan/resolved_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/errors.h"
#include "job/plan/block_sizes.h"

namespace dotresize {

void AskedSize::refuse(double size, const std::string& reason) const {
  const std::string of = key == "method.size" ? fmt::format("{:.6g}", size)
                                              : fmt::format("{}, a size of {:.6g},", value, size);
  throw InputError(key, of + " " + reason);
}

int64_t summed_junctions(const ModelConfig& config, const ResolvedJob& job) {
  const bool all = job.statistics.saved() && !job.target.allocation;
  return all ? config.num_junctions() : job.widths.mapped_count;
}

bool sums_junctions(const ResolvedJob& job) {
  return (job.statistics.saved() && !job.target.allocation) || job.widths.mapped_count > 0;
}

bool takes_no_tokens(const ResolvedJob& job) {
  return job.statistics.used() && !job.target.allocation;
}

int64_t default_seqlen(const ModelConfig& config) {
  return std::min(kDefaultSeqlen, config.max_position_embeddings);
}

int64_t expected_samples(const ResolvedJob& job) {
  return job.calibration.samples.value_or(kDefaultSamples);
}

int64_t expected_seqlen(const ResolvedJob& job, const ModelConfig& config) {
  return job.calibration.seqlen.value_or(default_seqlen(config));
}

int64_t expected_tokens(const ResolvedJob& job, const ModelConfig& config) {
  return expected_samples(job) * expected_seqlen(job, config);
}

int64_t expected_evaluation_tokens(const ResolvedJob& job, const ModelConfig& config) {
  if (!job.evaluation) return 0;
  const EvaluationSource& source = *job.evaluation;
  const int64_t seqlen = source.seqlen.value_or(expected_seqlen(job, config));
  if (source.samples) return *source.samples * seqlen;
  if (!source.count && !source.unused_windows) return expected_tokens(job, config);
  int64_t windows = source.count ? *source.count / seqlen : INT64_MAX;
  if (source.unused_windows)
    windows = std::min(windows - expected_samples(job), kDefaultUnusedSamples);
  return std::max<int64_t>(windows, 1) * seqlen;
}

bool may_be_cut(const ResolvedJob& job, int64_t sublayer) {
  return is_attention(sublayer) ? job.cuts_attentions() : job.mlp.has_value();
}

int64_t count_cut_sublayers(const ResolvedJob& job, int64_t first, int64_t end) {
  int64_t count = 0;
  for (int64_t s = first; s < end; ++s) count += may_be_cut(job, s) ? 1 : 0;
  return count;
}

}  // namespace dotresize
