// Operations per sublayer. n: calibration tokens; d: junction width; k: map width; P: weights; A:
// weights that a token meets (all but those of the experts that it is not sent to).
//   forward, per pass   2 A n, and for attention 2 n seqlen heads·head_dim (causal: half the pairs)
//   passes              1 (2 for pca with transport); 2 more with an evaluation, before and after;
//                       3 more for gradients
//   Gram                2 n d², and as much for the Gram matrix of the gradients
//   costs               3 n d²/2 (subtract, absolute value, add per pair), pca: rotation 2 n d²
//   eigenvectors        20 d³ (10 d³ multiply-adds)
//   transport           4 d k per Sinkhorn iteration (kSinkhornIterations), and QR 2 d k²
//   folding             2 P k
//   MLP cut             one more pass per round; for f features 2 n f² and the removal (cut_counts)
//   head                2 V d n per evaluation pass, and folding
// The evaluation text is assumed to be as long as the calibration text.
#include "job/plan/estimate/work_estimate.h"

#include "job/model/model_size.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/estimate/work_counts.h"
#include "job/plan/token_windows.h"

namespace dotresize {
namespace {

struct WorkModel {
  const ModelConfig& config;
  const ResolvedJob& job;
  double d = static_cast<double>(config.hidden_size);
  double k = static_cast<double>(job.widths.largest());
  double seqlen = static_cast<double>(expected_seqlen(job, config));
  double tokens = static_cast<double>(expected_samples(job)) * seqlen;

  double evaluation_passes() const { return job.evaluation ? 2.0 : 0.0; }
  double forward_pass(int64_t sublayer) const {
    const double attention_width =
        static_cast<double>(config.attention.num_heads * config.attention.head_dim);
    return 2.0 * static_cast<double>(active_parameters(config, sublayer)) * tokens +
           (is_attention(sublayer) ? 2.0 * tokens * seqlen * attention_width : 0.0);
  }

  double backward_passes() const {
    return job.gradients() ? static_cast<double>(kBackwardPasses + 1) : 0.0;
  }

  double junction() const {
    double work = (job.gradients() ? 4.0 : 2.0) * tokens * d * d + 20.0 * d * d * d;
    if (job.method.transport()) {
      work += 1.5 * tokens * d * d;
      if (job.method.pca()) work += 2.0 * tokens * d * d;
      work += 4.0 * kSinkhornIterations * d * k + 2.0 * d * k * k;
    }
    return work;
  }

  /// Passes for the features of the MLPs.
  double cut_passes() const {
    return job.mlp ? static_cast<double>(job.mlp->rounds()) * (1.0 + backward_passes()) : 0.0;
  }
  double sublayer_cut(int64_t index) const {
    const CutCounts counts = cut_counts(config, job, index);
    return tokens * 2.0 / 1.125 * counts.gram + counts.solve;
  }

  double sublayer(int64_t index) const {
    const auto parameters = static_cast<double>(sublayer_parameters(
        config, index, config.hidden_size, config.hidden_size, /*folded=*/false));
    const bool mapped = index + 1 < job.widths.mapped_count;
    const double passes =
        job.method.passes() + evaluation_passes() + backward_passes() + cut_passes();
    return forward_pass(index) * passes + sublayer_cut(index) + (mapped ? junction() : 0.0) +
           2.0 * parameters * k;
  }

  double fold_vocabulary() const { return 2.0 * static_cast<double>(config.vocab_size) * d * k; }
  double head() const {
    return (evaluation_passes() + backward_passes()) * 2.0 *
               static_cast<double>(config.vocab_size) * d * tokens +
           fold_vocabulary();
  }
};

}  // namespace

std::vector<double> estimate_work(const ModelConfig& config, const ResolvedJob& job) {
  const WorkModel model{config, job};
  std::vector<double> work;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) work.push_back(model.sublayer(s));
  work.front() += model.junction() + model.fold_vocabulary();
  work.back() += model.head();
  return work;
}

}  // namespace dotresize
