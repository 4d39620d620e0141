#include "job/plan/estimate/traffic.h"

#include <algorithm>

#include "job/model/model_size.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/block_sizes.h"
#include "job/plan/estimate/work_counts.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

/// Bytes that are kept of one junction: sums of the first pass, the basis, and sums of the second
/// pass.
struct KeptSums {
  int64_t first = 0;
  int64_t basis = 0;
  int64_t second = 0;
};

KeptSums kept_sums(const ModelConfig& config, const ResolvedJob& job) {
  const int64_t square = kDouble * config.hidden_size * config.hidden_size;
  const SumsOfPasses needed = job.method.sums();
  KeptSums sums;
  sums.first = square * ((needed.first.cost ? 2 : 1) + (job.gradients() ? 1 : 0));
  // The metric of the loss adds its factor and the sums.
  if (job.method.pca()) sums.basis = job.oblique_maps() ? 3 * square : square;
  if (needed.second.cost) sums.second = square;
  return sums;
}

/// Bytes that the curves of an allocation take: the gradients behind each sublayer that may be cut,
/// of fitted and of held-out windows.
int64_t curve_bytes(const ModelConfig& config, const ResolvedJob& job) {
  return 2 * count_cut_sublayers(job, 0, config.num_sublayers()) * kDouble * config.hidden_size *
         config.hidden_size;
}

/// Bytes of the journal: every map, every sublayer that is cut, the sums of shared maps, and an
/// allocation's curves.
int64_t journal_bytes(const ModelConfig& config, const ResolvedJob& job) {
  const int64_t d = config.hidden_size;
  const int64_t k = job.widths.largest();
  const int64_t fold = folds_in_float64(job.output.dtypes.main) ? kDouble : kFloat;
  const int64_t junctions = job.widths.mapped_count;
  const bool shared = job.maps.shared;
  const int64_t maps = shared ? 1 : junctions;
  // M, and M_inv if it is not the transpose of M.
  const int64_t matrices = job.oblique_maps() ? 2 : 1;
  int64_t numbers = std::min(maps, junctions) * matrices * d * k;
  // Each map is rotated into the one before, if the shortcut between them has a low rank.
  const ModelConfig output = output_model_config(config, job, job.widths);
  for (int64_t s = 0; !shared && s + 1 < junctions; ++s) {
    const ShortcutForm form = output.shortcut(s);
    if (form.dense()) continue;
    numbers += k * k + shortcut_parameters(form, k, k);
  }
  int64_t bytes = numbers * fold;
  const KeptSums sums = kept_sums(config, job);
  if (shared && !job.statistics.given()) {  // otherwise the statistics have them
    bytes += junctions * (sums.first + sums.second);
    if (job.method.passes() > 1) bytes += maps * sums.basis;  // for the second pass
  }
  if (job.target.allocation && !job.statistics.given()) bytes += curve_bytes(config, job);
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    bytes += static_cast<int64_t>(cut_counts(config, job, s).journal);
  }
  return bytes;
}

int64_t sent_bytes(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan,
                   int64_t model) {
  const int64_t others = job.resources.ranks - 1;
  const int64_t d = config.hidden_size;
  const int64_t tokens = expected_tokens(job, config);
  const int64_t compute = size_in_bytes(job.resources.compute_dtype);
  const int64_t weights = others * model * compute;
  const int64_t evaluation = job.evaluation ? 2 * weights : 0;
  if (takes_no_tokens(job)) return evaluation;
  if (job.schedule.pipelined) {
    const int64_t back = job.gradients() ? 1 : 0;
    const int64_t of_maps =
        sums_junctions(job) ? (job.method.passes() + back) * plan.junction_groups : 0;
    return evaluation +
           others * tokens * d * kFloat * (of_maps + plan.cut_passes + plan.cut_passes_back);
  }
  int64_t features = 0;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) features += feature_sums_bytes(config, s);
  const int64_t cut = job.mlp ? weights + others * features : 0;
  const int64_t matrices = 2 + (job.method.passes() > 1 ? 1 : 0);  // about: sums, rotation and map
  return evaluation + weights + cut + others * matrices * kDouble * d * d * job.widths.mapped_count;
}

}  // namespace

int64_t kept_states_bytes(const ModelConfig& config, const ResolvedJob& job, int64_t tokens) {
  if (!job.compares_predictions()) return 0;
  return tokens * config.hidden_size * size_in_bytes(job.resources.compute_dtype);
}

bool checks_sublayers_first(const ResolvedJob& job) {
  const bool loads_late = job.statistics.given() && !job.target.allocation;
  return !job.evaluation && (!job.schedule.pipelined || loads_late);
}

int64_t read_statistics_bytes(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.statistics.given()) return 0;
  if (job.target.allocation) return curve_bytes(config, job);
  const KeptSums sums = kept_sums(config, job);
  const bool own_bases = job.method.pca() && !job.maps.shared;
  return job.widths.mapped_count * ((own_bases ? sums.basis : sums.first) + sums.second);
}

int64_t saved_statistics_bytes(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.statistics.saved()) return 0;
  if (job.target.allocation) return curve_bytes(config, job);
  const KeptSums sums = kept_sums(config, job);
  return summed_junctions(config, job) * (sums.first + sums.basis + sums.second);
}

Traffic estimate_traffic(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  const NetSize size = net_size(config, job, job.widths);
  // Reads for the passes through the model, for folding and for the fingerprint; for the check, the
  // evaluation, the cuts and the allocation.
  const int64_t of_source = 2 + (takes_no_tokens(job) ? 0 : 1) +
                            (checks_sublayers_first(job) ? 1 : 0) + (job.evaluation ? 1 : 0) +
                            (job.mlp ? 2 : 0) + (job.target.allocation ? 1 : 0);
  const int64_t of_output = 1 + (job.evaluation ? 1 : 0);
  Traffic traffic;
  const int64_t states = kept_states_bytes(config, job, expected_evaluation_tokens(job, config));
  traffic.journal_bytes = journal_bytes(config, job) + states;
  traffic.statistics_bytes = saved_statistics_bytes(config, job);
  traffic.read_bytes = of_source * size.dense_bytes + of_output * size.compressed_bytes +
                       read_statistics_bytes(config, job) + states;
  traffic.written_bytes = size.compressed_bytes + traffic.journal_bytes + traffic.statistics_bytes;
  traffic.sent_bytes = sent_bytes(config, job, plan, size.dense_parameters);
  return traffic;
}

}  // namespace dotresize
