#include "worker/healing/heal_output.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "job/plan/block_sizes.h"
#include "worker/evaluation/vocabulary_sums.h"
#include "worker/healing/adam.h"
#include "worker/healing/sublayer_updates.h"
#include "worker/maps/scoped_threads.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/gradient/gradient_stream.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

/// Losses on the held-out windows, in nats per token.
struct HeldOutLoss {
  double kl = 0.0;
  double loss = 0.0;  ///< the training loss
};

class HealingRun {
 public:
  HealingRun(Communicator& comm, const HealingJob& job, const HealingObserver& observer,
             PhaseClock& clock)
      : comm_(comm),
        job_(job),
        observer_(observer),
        clock_(clock),
        last_(comm.rank() == comm.size() - 1),
        samples_(microbatch_samples(job.fitted.ids.size(1))),
        steps_(steps_per_epoch(job.fitted.ids.size(0), job.fitted.ids.size(1))) {}

  HealingReport run();

 private:
  /// Losses after each epoch of an interrupted run, as rank 0 sees it.
  std::vector<HeldOutLoss> found() const;
  void load();
  void train_epoch(int64_t epoch);
  /// Returns the gradient at the last junction, for these windows, of the mean loss of a step of
  /// `tokens` tokens.
  at::Tensor gradient(const at::Tensor& x, std::span<const int64_t> windows, int64_t tokens) const;
  HeldOutLoss held_out() const;
  /// Trains the missing epochs, and writes each to the journal.
  void train(std::vector<HeldOutLoss>& losses);
  /// Writes the share of the updates with the least held-out loss to the journal.
  void choose_share(const std::vector<HeldOutLoss>& losses);

  Communicator& comm_;
  const HealingJob& job_;
  const HealingObserver& observer_;
  PhaseClock& clock_;
  const bool last_;
  const int64_t samples_;  ///< samples per microbatch
  const int64_t steps_;    ///< steps per epoch
  Stage stage_;
  std::vector<SublayerUpdates> updates_;  ///< by sublayer of the stage
  HeadWeights head_;                      ///< last rank only, as dense_head_
  at::Tensor dense_head_;
};

std::vector<HeldOutLoss> HealingRun::found() const {
  std::vector<HeldOutLoss> losses;
  const auto whole = [&](int64_t epoch) {
    for (int64_t s = 0; epoch > 0 && s < job_.output.num_sublayers(); ++s) {
      if (!job_.journal.has(entries::kUpdates(epoch, s))) return false;
    }
    return true;
  };
  while (job_.journal.has(entries::kUpdates(std::ssize(losses)))) {
    const auto value = job_.journal.value(entries::kUpdates(std::ssize(losses)));
    losses.push_back({value.at("kl"), value.at("loss")});
  }
  while (std::ssize(losses) > 1 && !whole(std::ssize(losses) - 1)) losses.pop_back();
  const int64_t epochs = gather_numbers(comm_, std::ssize(losses)).front();
  losses.resize(static_cast<size_t>(epochs));
  return losses;
}

void HealingRun::load() {
  const PhaseClock::Scope scope(clock_, "read");
  stage_ = load_stage(job_.folded, job_.output, job_.shard, job_.shard.end_sublayer,
                      job_.compute_dtype, job_.device);
  for (SublayerWeights& weights : stage_.sublayers) {
    updates_.emplace_back(job_.output, weights);
    updates_.back().attach_to(weights);
  }
  if (!last_) return;
  head_ = to_device(load_head(job_.folded, job_.output, job_.compute_dtype), job_.device);
  const HeadWeights dense = load_head(job_.dense, job_.dense_config, job_.compute_dtype);
  dense_head_ = to_device(dense.weight, job_.device);
}

at::Tensor HealingRun::gradient(const at::Tensor& x, std::span<const int64_t> windows,
                                int64_t tokens) const {
  const int64_t seqlen = x.size(1);
  std::vector<at::Tensor> states;
  for (const int64_t window : windows) {
    const at::Tensor of_microbatch = job_.fitted.states(window / samples_);
    states.push_back(of_microbatch.narrow(0, window % samples_ * seqlen, seqlen));
  }
  // The label of a token is the next one; -1 at the end of a window.
  const at::Tensor ids = job_.fitted.ids.index_select(
      0, at::tensor(at::IntArrayRef(windows.data(), windows.size()), at::kLong));
  const at::Tensor none = at::full({ids.size(0), 1}, -1, at::kLong);
  const at::Tensor labels = at::cat({ids.slice(1, 1), none}, 1).flatten();
  const TargetPredictions target{
      dense_head_, to_device(at::cat(states), job_.device).to(dense_head_.scalar_type()),
      to_device(labels, job_.device), kLabelShare};
  return distillation_gradient(job_.output, head_, x, target).div_(static_cast<double>(tokens));
}

/// Step s takes the windows s, s + steps_, ...
void HealingRun::train_epoch(int64_t epoch) {
  const PhaseClock::Scope scope(clock_, "heal", fmt::format("epoch {}", epoch + 1));
  for (int64_t step = 0; step < steps_; ++step) {
    std::vector<int64_t> numbers;
    for (int64_t w = step; w < job_.fitted.ids.size(0); w += steps_) numbers.push_back(w);
    const at::Tensor windows = job_.fitted.ids.index_select(0, at::tensor(numbers, at::kLong));
    const auto at_end = [&](const at::Tensor& x, int64_t first_window) {
      const auto mine = std::span(numbers).subspan(static_cast<size_t>(first_window),
                                                   static_cast<size_t>(x.size(0)));
      return gradient(x, mine, windows.numel());
    };
    const auto add = [&](int64_t sublayer, const std::vector<at::Tensor>& gradients) {
      updates_.at(static_cast<size_t>(sublayer - stage_.first_sublayer)).add(gradients);
    };
    const auto no_visit = [](int64_t, const at::Tensor&) {};
    stream_gradients(
        comm_, job_.output, stage_, {windows, at_end, job_.shard.checkpoints, add}, nullptr,
        no_visit, [](int64_t) {}, clock_);
    const double rate = cosine_rate(job_.options.update_learning_rate(), epoch * steps_ + step,
                                    steps_ * job_.options.epochs);
    for (SublayerUpdates& updates : updates_) updates.step(rate);
    observer_.tokens_seen(windows.numel() * job_.output.num_layers());
  }
}

HeldOutLoss HealingRun::held_out() const {
  const PhaseClock::Scope scope(clock_, "heal", "held out");
  EvaluationSums sums;
  int64_t microbatch = 0;
  const auto visit = [&](int64_t junction, const at::Tensor& x) {
    if (junction != job_.output.num_sublayers()) return;
    const at::ScalarType dtype = head_.weight.scalar_type();
    const int64_t begin = microbatch * samples_;
    const at::Tensor ids = job_.held_out.ids.narrow(0, begin, x.size(0));
    const at::Tensor states = to_device(job_.held_out.states(microbatch++), job_.device);
    const std::optional<double>& cap = job_.output.logit_cap;
    const ReferencePredictions dense{vocabulary_of(dense_head_, cap), {states.to(dtype)}};
    const at::Tensor mine = final_state(job_.output, head_, x.reshape({-1, x.size(-1)}), dtype);
    sums.add(vocabulary_sums(vocabulary_of(head_.weight, cap), {mine}, {ids}, &dense).front());
  };
  stream_through_stages(comm_, job_.output, stage_, job_.held_out.ids, visit, [](int64_t) {});
  at::Tensor found = at::zeros({2}, at::dtype(at::kDouble).device(job_.device));
  if (last_) {
    const double kl = sums.divergence->mean_kl();
    const double nll = sums.loss.nll / static_cast<double>(sums.loss.tokens);
    found[0] = rounded_nats(kl);
    found[1] = rounded_nats((1.0 - kLabelShare) * kl + kLabelShare * nll);
  }
  comm_.broadcast(found, comm_.size() - 1);
  found = found.cpu();
  return {found[0].item<double>(), found[1].item<double>()};
}

void HealingRun::train(std::vector<HeldOutLoss>& losses) {
  const auto trained = [&] { return std::ssize(losses) - 1; };
  load();
  for (size_t i = 0; trained() > 0 && i < updates_.size(); ++i) {
    const std::string entry = entries::kUpdates(trained(), stage_.sublayers[i].sublayer);
    updates_[i].restore(job_.journal.get(entry));
  }
  while (trained() < job_.options.epochs) {
    const int64_t epoch = trained() + 1;
    if (epoch > 0) train_epoch(epoch - 1);
    const HeldOutLoss found = held_out();
    losses.push_back(found);
    {
      const PhaseClock::Scope scope(clock_, "journal");
      for (size_t i = 0; epoch > 0 && i < updates_.size(); ++i) {
        const std::string entry = entries::kUpdates(epoch, stage_.sublayers[i].sublayer);
        job_.journal.put(entry, updates_[i].state());
      }
      comm_.barrier();  // all sublayers of the epoch are in the journal
      if (comm_.rank() == 0) {
        job_.journal.put_value(entries::kUpdates(epoch), {{"kl", found.kl}, {"loss", found.loss}});
      }
      comm_.barrier();
    }
    for (const SublayerWeights& weights : stage_.sublayers) {  // the epoch before is not needed
      const std::string entry = entries::kUpdates(epoch - 1, weights.sublayer);
      if (epoch > 1 && job_.journal.has(entry)) job_.journal.remove(entry);
    }
    observer_.epoch_ended(epoch, found.kl, /*found=*/false);
  }
}

void HealingRun::choose_share(const std::vector<HeldOutLoss>& losses) {
  double taken = 1.0;
  HeldOutLoss least = losses.back();
  for (const double share : kLessUpdates) {
    for (size_t i = 0; i < updates_.size(); ++i) {
      updates_[i].attach_to(stage_.sublayers[i], share);
    }
    const HeldOutLoss found = held_out();
    if (!(found.loss < least.loss)) break;
    taken = share;
    least = found;
  }
  if (!(least.loss < losses.front().loss)) {
    taken = 0.0;
    least = losses.front();
  }
  if (comm_.rank() == 0) {
    job_.journal.put_value(entries::kUpdateShare, {{"share", taken}, {"kl", least.kl}});
  }
  comm_.barrier();
}

HealingReport HealingRun::run() {
  std::vector<HeldOutLoss> losses = found();
  for (size_t epoch = 0; epoch < losses.size(); ++epoch) {
    observer_.epoch_ended(static_cast<int64_t>(epoch), losses[epoch].kl, /*found=*/true);
  }
  const int64_t trained = std::max<int64_t>(0, std::ssize(losses) - 1);
  observer_.tokens_seen(trained * job_.fitted.ids.numel() * job_.output.num_layers());
  const bool done = trained == job_.options.epochs && job_.journal.has(entries::kUpdateShare);
  if (gather_numbers(comm_, done ? 1 : 0).front() == 0) {
    // If a step has fewer windows than there are stages, ranks wait for each other, and the working
    // ranks may use the cores of the others. 0: the number of threads stays.
    const int64_t windows = windows_per_step(job_.fitted.ids.size(0), job_.fitted.ids.size(1));
    const int64_t at_work = std::min<int64_t>(comm_.size(), windows);
    const int threads = job_.cores / static_cast<int>(at_work);
    const ScopedThreads of_ranks_at_work(threads > at::get_num_threads() ? threads : 0);
    train(losses);
    choose_share(losses);
  }
  HealingReport report;
  for (const HeldOutLoss& loss : losses) report.held_out_kl.push_back(loss.kl);
  const nlohmann::json taken = job_.journal.value(entries::kUpdateShare);
  report.held_out_kl.push_back(taken.at("kl"));
  report.update_share = taken.at("share");
  return report;
}

}  // namespace

HealingReport heal_output(Communicator& comm, const HealingJob& job,
                          const HealingObserver& observer, PhaseClock& clock) {
  const c10::InferenceMode with_autograd(false);
  const c10::NoGradGuard no_gradients;
  return HealingRun(comm, job, observer, clock).run();
}

void write_healed(Communicator& comm, const HealingJob& job, const HealingReport& report,
                  const std::filesystem::path& dir, const ShardLayout& layout) {
  if (report.update_share > 0.0) {
    std::set<std::string> names;
    for (int64_t s = job.shard.first_sublayer; s < job.shard.end_sublayer; ++s) {
      for (const StoredTensor& weight : updated_tensors(job.output, s)) names.insert(weight.name);
    }
    ShardWriter writer(dir, layout, names);
    for (int64_t s = job.shard.first_sublayer; s < job.shard.end_sublayer; ++s) {
      const auto stored = [&](const StoredTensor& tensor) {
        return job.folded.get(tensor.name, tensor.shape);
      };
      const auto state = job.journal.get(entries::kUpdates(job.options.epochs, s));
      for (const auto& [name, tensor] :
           merged_weights(job.output, s, state, report.update_share, stored)) {
        writer.write(name, tensor);
      }
      for (const StoredTensor& weight : updated_tensors(job.output, s)) {
        job.folded.release(weight.name, stored(weight));
      }
    }
    writer.finish();
  }
  comm.barrier();
}

}  // namespace dotresize
