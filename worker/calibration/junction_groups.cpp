#include "worker/calibration/junction_groups.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "worker/transformer/gradient/gradient_stream.h"
#include "worker/transformer/load.h"

namespace dotresize {
namespace {

int64_t parts_of(int64_t count, int64_t at_once) {
  return count / at_once + (count % at_once != 0);
}

CostPrecision sampled_precision(const CalibrationJob& job, const JunctionSetup& setup,
                                const at::Tensor& x, const at::Tensor& rotation) {
  if (!job.tries_half_costs()) return {};
  return CostPrecision::from_half_error(half_cost_error(setup, x, rotation));
}

void add_second(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x) {
  if (!junction.second) {
    junction.second.emplace(junction.setup, junction.rotation,
                            sampled_precision(job, junction.setup, x, junction.rotation));
  }
  junction.second->add(x);
}

}  // namespace

void add_first(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x) {
  const JunctionSetup& setup = junction.setup;
  if (!junction.first) {
    junction.first.emplace(
        setup, setup.costs_in_first_pass() ? sampled_precision(job, setup, x, {}) : CostPrecision{},
        job.packs_sums());
  }
  junction.first->add(x);
}

StageJunction* JunctionGroup::find(int64_t junction) {
  const auto found = std::ranges::find_if(
      junctions, [&](const StageJunction& each) { return each.setup.junction == junction; });
  return found == junctions.end() ? nullptr : &*found;
}

std::vector<int64_t> junctions_of(const CalibrationJob& job, const RankShard& shard) {
  std::vector<int64_t> junctions(static_cast<size_t>(shard.junctions(job.mapped_junctions())));
  std::iota(junctions.begin(), junctions.end(), shard.first_junction());
  return junctions;
}

void in_parts(Communicator& comm, const ShardPlan& plan, const std::vector<int64_t>& pending,
              const std::function<int64_t(const RankShard&)>& at_once,
              const std::function<void(std::span<const int64_t> part, int64_t largest)>& step) {
  const std::vector<int64_t> counts = gather_numbers(comm, static_cast<int64_t>(pending.size()));
  int64_t groups = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    groups = std::max(groups, parts_of(counts[rank], at_once(plan.ranks[rank])));
  }
  for (int64_t number = 0; number < groups; ++number) {
    const auto end_of = [&](int64_t count) { return count * (number + 1) / groups; };
    const auto begin_of = [&](int64_t count) { return count * number / groups; };
    int64_t largest = 0;
    for (const int64_t count : counts) {
      largest = std::max(largest, end_of(count) - begin_of(count));
    }
    const auto mine = static_cast<int64_t>(pending.size());
    step(std::span(pending).subspan(static_cast<size_t>(begin_of(mine)),
                                    static_cast<size_t>(end_of(mine) - begin_of(mine))),
         largest);
  }
}

void in_groups(Communicator& comm, const CalibrationJob& job, const std::vector<int64_t>& pending,
               PhaseClock& clock, const std::function<void(JunctionGroup&)>& step) {
  const auto at_once = [](const RankShard& shard) { return shard.junctions_at_once; };
  in_parts(comm, job.plan, pending, at_once, [&](std::span<const int64_t> part, int64_t largest) {
    JunctionGroup group;
    group.largest = largest;
    for (const int64_t junction : part) {
      group.junctions.push_back({{junction, job.config.hidden_size, job.map, clock, job.device}});
    }
    step(group);
  });
}

void PipelinePasses::load() {
  if (stage_) return;
  const PhaseClock::Scope scope(clock_, "read");
  // Tensors for autograd's backward pass must not be made in inference mode.
  std::optional<c10::InferenceMode> with_autograd;
  if (gradients()) with_autograd.emplace(false);
  const RankShard& shard = job_.shard(comm_);
  const int64_t end = gradients() ? shard.end_sublayer : shard.end_run(job_.mapped_junctions());
  stage_ = load_stage(job_.reader, job_.config, shard, end, job_.compute_dtype, job_.device);
  if (gradients() && comm_.rank() == comm_.size() - 1) {
    head_ = to_device(load_head(job_.reader, job_.config, job_.compute_dtype), job_.device);
  }
}

void PipelinePasses::stream(const JunctionVisitor& visit) {
  load();
  const PhaseClock::Scope scope(clock_, "forward");
  stream_through_stages(comm_, job_.config, *stage_, job_.windows, visit, observer_.tokens_seen);
}

void PipelinePasses::stream_and_back(JunctionGroup& group) {
  load();
  const PhaseClock::Scope scope(clock_, "forward");
  const auto visit = [&](int64_t junction, const at::Tensor& x) {
    if (StageJunction* found = group.find(junction)) add_first(job_, *found, x);
  };
  const auto visit_gradient = [&](int64_t junction, const at::Tensor& g) {
    if (StageJunction* found = group.find(junction)) found->first->add_gradient(g);
  };
  const LossOfWindows loss{job_.windows, label_gradient(job_.config, head_, job_.window_numbers),
                           job_.shard(comm_).checkpoints};
  stream_gradients(comm_, job_.config, *stage_, loss, visit, visit_gradient, observer_.tokens_seen,
                   clock_);
}

void PipelinePasses::pairs(
    std::span<const int64_t> wanted, const at::Tensor& windows,
    const std::function<void(int64_t junction, const at::Tensor& x, const at::Tensor& g)>& visit) {
  load();
  const PhaseClock::Scope scope(clock_, "forward");
  std::map<int64_t, std::deque<at::Tensor>> under_way;  // gradients arrive in the order of the x
  for (const int64_t junction : wanted) under_way[junction];
  const auto keep = [&](int64_t junction, const at::Tensor& x) {
    const auto found = under_way.find(junction);
    if (found != under_way.end()) found->second.push_back(x);
  };
  const auto visit_gradient = [&](int64_t junction, const at::Tensor& g) {
    const auto found = under_way.find(junction);
    if (found == under_way.end()) return;
    visit(junction, found->second.front(), g);
    found->second.pop_front();
  };
  // If the stage recomputes inputs, x is taken from the recomputation, shortly before its gradient.
  const std::vector<int64_t> in_order;
  LossOfWindows loss{windows, label_gradient(job_.config, head_, in_order),
                     job_.shard(comm_).checkpoints};
  const bool again = loss.checkpoints == Checkpoints::kStage;
  if (again) loss.visit_again = keep;
  stream_gradients(comm_, job_.config, *stage_, loss, again ? JunctionVisitor() : keep,
                   visit_gradient, observer_.tokens_seen, clock_);
}

void PipelinePasses::first(JunctionGroup& group) {
  if (gradients()) return stream_and_back(group);
  stream([&](int64_t junction, const at::Tensor& x) {
    if (StageJunction* found = group.find(junction)) add_first(job_, *found, x);
  });
}

void PipelinePasses::second(JunctionGroup& group) {
  stream([&](int64_t junction, const at::Tensor& x) {
    if (StageJunction* found = group.find(junction)) add_second(job_, *found, x);
  });
  for (StageJunction& junction : group.junctions) junction.rotation.reset();
}

}  // namespace dotresize
