#pragma once

#include "job/plan/estimate/job_time.h"
#include "job/plan/steps/step.h"

namespace dotresize {

// Costs of a junction, from its moments to its map and its values for the report, for the
// schedules. kMapsStep has what does not depend on the schedule.

/// Sizes of a rank's junctions, in bytes unless a comment says otherwise.
///
/// The unit of a junction is a float64 matrix [d, d] (square) or [d, k] (rectangle). Gram matrix,
/// costs and eigenvectors U are squares. The plan of the transport, Q and M are rectangles. A
/// junction holds, from one phase to the next (docs/architecture.md, "Memory"):
///   first pass    the Gram matrix, and in the identity basis the costs
///   decomposed    U in the PCA basis: on the host, if a GPU computes
///   second pass   U's float32 copy and the costs
///   solving       the costs and the workspace; then M goes to the journal
/// The report's values of a junction are computed while the next junction is solved.
struct JunctionSizes {
  explicit JunctionSizes(const RankSizes& rank);

  int64_t solving() const;
  int64_t describing() const;
  /// Describing a junction while something else is computed; 0 if nothing overlaps.
  int64_t described_beside() const { return r.shard.overlaps ? describing() : 0; }
  /// Peak of one junction at a time. All ranks add up its sums and one rank solves it.
  int64_t one_at_a_time() const;

  const RankSizes& r;
  const bool pca;
  const bool second_pass;
  const int64_t metric;  ///< factor of the metric and Gram matrix, which wait beside U
  const int64_t eigen;
  // Sums of a junction in its first pass, as they are taken and unpacked, and in its second pass.
  const int64_t first_sums;
  const int64_t whole_first_sums;
  const int64_t second_sums;
  const int64_t waiting_to_solve;  ///< bytes that a junction of a group holds after the passes
  const int64_t in_group;          ///< number of junctions of a group on this rank
};

/// Work per token for the moments of a mapped junction.
struct MomentCounts {
  double gram = 0.0;    ///< floating-point operations: float64, on a GPU float32
  double rotate = 0.0;  ///< likewise, float32
  double pairs = 0.0;   ///< pairs of the l1 costs
};

MomentCounts moment_counts(const ResolvedJob& job);

/// Work for one mapped junction whose moments are known.
struct SolveCounts {
  double eigen = 0.0;     ///< operations, as hardware.proto counts them
  double qr = 0.0;        ///< likewise
  double sinkhorn = 0.0;  ///< bytes of the cost matrix
  double solve = 0.0;     ///< floating-point operations, float64
  double metric = 0.0;    ///< likewise, for the Gram matrix in the metric of the loss
  double inverse = 0.0;   ///< likewise, for an oblique map and its inverse
  double map = 0.0;       ///< bytes that the journal keeps
};

SolveCounts solve_counts(const ResolvedJob& job);

/// True if the schedule of this name sums junctions in the job.
bool sums_in(const ResolvedJob& job, std::string_view schedule);

void add_moments(const JobTime& t, double tokens, double junctions, PhaseTimes& times);
double eigen_seconds(const JobTime& t);
/// Solves one junction whose moments are decomposed.
PhaseTimes solve_time(const JobTime& t);
/// Records one junction while `meanwhile` seconds of other work are done.
PhaseTimes record_time(const JobTime& t, double meanwhile);

// Schedules whose ranks share the tokens: one junction after the other.
PhaseTimes shared_junction_time(const JobTime& t);
void add_sharers_traffic(const JobParts& parts, Traffic& traffic);
int64_t sharers_tokens(const JobParts& parts, const FoundTokens& found);

}  // namespace dotresize
