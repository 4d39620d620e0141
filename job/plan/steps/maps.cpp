#include "job/plan/steps/maps.h"

#include <algorithm>

#include "job/model/model_size.h"

namespace dotresize {
namespace {

/// Cost of finding a junction's transport plan, in Sinkhorn iterations. Measured at the widths of
/// Llama-3.1-8B and 70B with lambda 0.1: 48 and 64 iterations. The first one, in the log domain,
/// and the plan take as long as 16 to 27 others.
constexpr double kSinkhornIterations = 80.0;

/// Steps of each of the two Lanczos runs. A step of both reads the matrix three times.
constexpr double kConditionSteps = 30.0;

/// Work for values of a solved junction that only the report needs.
struct DescribeCounts {
  double eigenvalues = 0.0;  ///< operations, at the rate of an eigendecomposition
  double condition = 0.0;    ///< bytes that are read on the host
  double energy = 0.0;       ///< floating-point operations, float64
};

DescribeCounts describe_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  const double k = number(job.widths.largest());
  DescribeCounts counts;
  if (job.method.transport()) counts.condition = kConditionSteps * 3.0 * 8.0 * k * k;
  if (!job.method.pca() || job.oblique_maps()) {
    counts.eigenvalues = 5.0 * d * d * d;
    counts.energy = 2.0 * d * d * k;
  }
  return counts;
}

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

}  // namespace

JunctionSizes::JunctionSizes(const RankSizes& rank)
    : r(rank),
      pca(r.job.method.pca()),
      second_pass(r.job.method.passes() > 1),
      metric(r.oblique ? 2 * r.square : 0),
      eigen(pca ? (r.on_gpu ? 4 : 3) * r.square : 0),
      first_sums(r.gram_sum(r.d) * (r.gradients ? 2 : 1) +
                 (r.job.method.sums().first.cost ? r.square : 0)),
      whole_first_sums(r.square *
                       ((r.job.method.sums().first.cost ? 2 : 1) + (r.gradients ? 1 : 0))),
      second_sums(second_pass ? r.square + r.square / 2 + (r.on_gpu ? 0 : r.square + metric) : 0),
      waiting_to_solve(pca ? (r.job.method.sums().second.cost ? r.square : 0) +
                                 (r.on_gpu ? 0 : r.square + metric)
                           : whole_first_sums),
      in_group(std::min(r.shard.junctions_at_once,
                        r.shard.junctions(summed_junctions(r.config, r.job)))) {}

/// Bytes to solve a junction, beside what waited: costs, kernel and plan of Sinkhorn, or the plan,
/// its decomposition and Q; and M.
int64_t JunctionSizes::solving() const {
  const int64_t uploaded = r.on_gpu && pca ? r.square + metric : 0;
  // An oblique map also needs its decomposition, M_inv and two products.
  const int64_t turned = r.oblique ? 4 * r.rectangle + 2 * r.k * r.k * kDouble : 0;
  if (!r.job.method.transport()) return uploaded + 2 * r.rectangle + turned;
  const int64_t kernel_and_plan = r.on_gpu ? 7 * r.rectangle : 3 * r.rectangle;
  return uploaded + std::max(kernel_and_plan, 3 * r.rectangle + 2 * r.k * r.k * kDouble + turned);
}

/// Bytes to describe a solved junction in the background, where its map is also written.
int64_t JunctionSizes::describing() const {
  const int64_t R = r.job.method.transport() ? r.k * r.k * kDouble : 0;
  const int64_t maps = (r.oblique ? 2 : 1) * r.rectangle;
  const int64_t written = r.fold_bytes == kDouble ? 0 : maps / kDouble * r.fold_bytes;
  const int64_t decomposed = pca && !r.oblique ? 0 : 2 * r.square;
  return written + decomposed + maps + r.rectangle + R;
}

int64_t JunctionSizes::one_at_a_time() const {
  const int64_t reduced = r.job.resources.ranks > 1 ? r.square : 0;  // buffers of MPI and NCCL
  const int64_t first = first_sums + std::max(r.at_junction(), reduced);
  const int64_t decomposing = r.square + eigen;
  const int64_t second = second_sums + std::max(r.at_junction(), reduced);
  return std::max(
      described_beside() + std::max({first, decomposing, second, waiting_to_solve + solving()}),
      waiting_to_solve + describing());
}

MomentCounts moment_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  MomentCounts counts;
  counts.gram = gram_operations(d) * (job.gradients() ? 2.0 : 1.0);
  if (job.method.sums().in_basis().cost) counts.pairs = d * d / 2.0;
  if (job.method.passes() > 1) counts.rotate = 2.0 * d * d;
  return counts;
}

SolveCounts solve_counts(const ResolvedJob& job) {
  const double d = number(job.model.hidden_size);
  const double k = number(job.widths.largest());
  SolveCounts counts;
  if (job.method.pca()) counts.eigen = 20.0 * d * d * d;
  if (job.method.transport()) {
    counts.sinkhorn = 8.0 * kSinkhornIterations * d * k;
    counts.qr = 2.0 * d * k * k;
  }
  if (job.method.transport() && job.method.pca()) counts.solve = 2.0 * d * d * k;
  counts.map = d * k * (folds_in_float64(job.output.dtypes.main) ? 8.0 : 4.0);
  if (job.oblique_maps()) {
    counts.qr += 2.0 * d * k * k;
    counts.metric = 4.4 * d * d * d;
    counts.inverse = 5.0 * d * d * k + 2.0 * d * k * k;
    counts.map *= 2.0;
  }
  return counts;
}

bool sums_in(const ResolvedJob& job, std::string_view schedule) {
  return job.schedule.name == schedule && sums_junctions(job);
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

void add_moments(const JobTime& t, double tokens, double junctions, PhaseTimes& times) {
  const MomentCounts counts = moment_counts(t.job);
  const double gram = t.gram(tokens, counts.gram, t.d, t.job.gradients() ? 2.0 : 1.0);
  times.add("gram", junctions * gram);
  times.add("rotate", junctions * tokens * counts.rotate / t.rates.float32_gemm);
  times.add("cost", junctions * tokens * counts.pairs / t.rates.l1_cost);
}

double eigen_seconds(const JobTime& t) {
  const SolveCounts counts = solve_counts(t.job);
  return counts.eigen / t.rates.eigen + counts.metric / t.rates.float64_gemm;
}

PhaseTimes solve_time(const JobTime& t) {
  const SolveCounts counts = solve_counts(t.job);
  PhaseTimes times;
  times.add("sinkhorn", counts.sinkhorn / t.rates.sinkhorn);
  times.add("qr", counts.qr / t.rates.qr + counts.inverse / t.rates.float64_gemm);
  times.add("solve", counts.solve / t.rates.float64_gemm);
  return times;
}

/// One thread writes a junction into the journal and another describes it until the next one is
/// solved. On a CPU their cores are those of the other work, but the disk is not.
PhaseTimes record_time(const JobTime& t, double meanwhile) {
  const DescribeCounts counts = describe_counts(t.job);
  const double describe = counts.eigenvalues / t.rates.eigen +
                          counts.condition / t.rates.host_memory +
                          counts.energy / t.rates.float64_gemm;
  const double map = solve_counts(t.job).map;
  const double written = map / t.rates.disk_write;
  const double hashed = map / t.rates.hash;
  PhaseTimes times;
  times.add("describe", t.rates.cuda ? describe - meanwhile : describe);
  times.add("journal", t.rates.cuda ? written + hashed - std::max(meanwhile, describe)
                                    : std::max(0.0, written - meanwhile) + hashed);
  return times;
}

/// All ranks sum the junction's moments; one rank decomposes and solves it, side by side with the
/// owners of other junctions. It records the junction while the other ranks solve theirs.
PhaseTimes shared_junction_time(const JobTime& t) {
  const double together = number(t.plan.ranks.front().solved_together);
  PhaseTimes times;
  add_moments(t, t.share_of_tokens, 1.0, times);
  PhaseTimes solving = solve_time(t);
  solving.add("eigen", eigen_seconds(t));
  times.add(t.in_turn(solving, together), 1.0 / together);
  double moved = 8.0 * t.d * t.d;
  if (t.job.method.transport()) moved += 8.0 * t.d * t.d;
  if (t.job.method.passes() > 1) moved += 4.0 * t.d * t.d;
  times.add("communicate", t.collective(moved));
  times.add(record_time(t, t.beside(t.ranks * times.total())), 1.0 / t.ranks);
  return times;
}

void add_sharers_traffic(const JobParts& parts, Traffic& traffic) {
  const auto& [config, job, plan] = parts;
  const int64_t matrices = 2 + (job.method.passes() > 1 ? 1 : 0);  // about: sums, rotation and map
  traffic.sent_bytes += (job.resources.ranks - 1) * matrices * kDouble * config.hidden_size *
                        config.hidden_size * job.widths.mapped_count;
}

/// Its share once per sublayer that it runs.
int64_t sharers_tokens(const JobParts& parts, const FoundTokens& found) {
  return found.calibration / parts.job.resources.ranks *
         std::max<int64_t>(0, parts.job.widths.mapped_count - 1);
}

namespace {

/// Eigenvectors that wait on the host of a GPU. Without a second pass one junction waits while
/// another is solved.
int64_t waiting_eigenvectors(const RankSizes& r) {
  const JunctionSizes s(r);
  const int64_t waiting = s.second_pass ? s.in_group : std::min<int64_t>(s.in_group, 2);
  return s.pca ? waiting * (r.square + s.metric) : 0;
}

double maps_passes(const ResolvedJob& job) {
  return sums_junctions(job) ? number(job.method.passes() + passes_back(job)) : 0.0;
}

void add_junctions_work(JobWork& work) {
  if (!sums_junctions(work.job)) return;
  const ResolvedJob& job = work.job;
  const MomentCounts moments = moment_counts(job);
  const SolveCounts solving = solve_counts(job);
  const DescribeCounts describing = describe_counts(job);
  // Three operations for a pair of the costs, and four for eight bytes of an iteration.
  const double junction = work.tokens * (moments.gram + moments.rotate + 3.0 * moments.pairs) +
                          solving.eigen + solving.qr + solving.solve + solving.metric +
                          solving.inverse + solving.sinkhorn / 2.0 + describing.eigenvalues +
                          describing.energy;
  for (int64_t s = 0; s + 1 < job.widths.mapped_count; ++s) {
    work.operations[static_cast<std::size_t>(s)] += junction;
  }
  work.embedding += junction;
}

/// The source is read for the passes over the tokens; ranks that share the tokens send it to each
/// other. The journal has every map, and the sums of shared maps.
void add_maps_traffic(const JobParts& parts, Traffic& traffic) {
  const auto& [config, job, plan] = parts;
  if (!takes_no_tokens(job)) traffic.read_bytes += stored_bytes(config);
  if (!job.schedule.pipelined) traffic.sent_bytes += sent_weights(parts);
  const int64_t junctions = job.widths.mapped_count;
  const bool shared = job.maps.shared;
  const int64_t maps = std::min<int64_t>(shared ? 1 : junctions, junctions);
  traffic.journal_bytes += maps * static_cast<int64_t>(solve_counts(job).map);
  if (!shared || job.statistics.given()) return;  // otherwise the statistics have the sums
  const KeptSums sums = kept_sums(config, job);
  traffic.journal_bytes += junctions * (sums.first + sums.second);
  if (job.method.passes() > 1) traffic.journal_bytes += sums.basis;  // for the second pass
}

}  // namespace

constinit const Step kMapsStep = {.phase = kCalibrate,
                                  .host_memory = waiting_eigenvectors,
                                  .passes = maps_passes,
                                  .work = add_junctions_work,
                                  .traffic = add_maps_traffic};

}  // namespace dotresize
