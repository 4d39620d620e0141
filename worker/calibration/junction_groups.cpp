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
JunctionSetup setup_of(const CalibrationJob& job, int64_t junction, PhaseClock& clock) {
  return {junction, job.config.hidden_size, job.map, clock, job.device};
}

void add_first(const CalibrationJob& job, StageJunction& junction, const at::Tensor& x) {
  if (!junction.first) junction.first.emplace(junction.setup, job.halves_precision());
  junction.first->add(x);
}

StageJunction* JunctionGroup::find(int64_t junction) {
  const auto found = std::ranges::find_if(
      junctions, [&](const StageJunction& each) { return each.setup.junction == junction; });
  return found == junctions.end() ? nullptr : &*found;
}

std::vector<int64_t> junctions_of(const CalibrationJob& job, const RankShard& shard) {
  std::vector<int64_t> junctions(static_cast<size_t>(shard.junctions(job.widths.mapped_count)));
  std::iota(junctions.begin(), junctions.end(), shard.first_junction());
  return junctions;
}

void PipelinePasses::in_parts(
    const std::vector<int64_t>& pending, const std::function<int64_t(const RankShard&)>& at_once,
    const std::function<void(std::span<const int64_t> part, int64_t largest)>& step) {
  const auto mine = static_cast<int64_t>(pending.size());
  const std::vector<int64_t> counts = gather_numbers(comm_, mine);
  int64_t groups = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const int64_t most = at_once(job_.plan.ranks[rank]);
    groups = std::max(groups, counts[rank] / most + (counts[rank] % most != 0));
  }
  for (int64_t number = 0; number < groups; ++number) {
    const auto end_of = [&](int64_t count) { return count * (number + 1) / groups; };
    const auto begin_of = [&](int64_t count) { return count * number / groups; };
    int64_t largest = 0;
    for (const int64_t count : counts) {
      largest = std::max(largest, end_of(count) - begin_of(count));
    }
    step(std::span(pending).subspan(static_cast<size_t>(begin_of(mine)),
                                    static_cast<size_t>(end_of(mine) - begin_of(mine))),
         largest);
  }
}

void PipelinePasses::in_groups(const std::vector<int64_t>& pending,
                               const std::function<void(JunctionGroup&)>& step) {
  const auto at_once = [](const RankShard& shard) { return shard.junctions_at_once; };
  in_parts(pending, at_once, [&](std::span<const int64_t> part, int64_t largest) {
    JunctionGroup group;
    group.largest = largest;
    for (const int64_t junction : part) {
      group.junctions.push_back({setup_of(job_, junction, clock_)});
    }
    step(group);
  });
}

void PipelinePasses::run(const Pass& pass) {
  const bool back = pass.see_gradient != nullptr;
  const bool in_metric_of_loss = job_.map.metric == Metric::kFisher;
  const RankShard& shard = job_.shard(comm_);
  const bool lacks_head = back && comm_.rank() == comm_.size() - 1 && !head_.weight.defined();
  if (!stage_ || lacks_head) {
    const PhaseClock::Scope scope(clock_, "read");
    // Tensors for autograd's backward pass must not be made in inference mode.
    std::optional<c10::InferenceMode> with_autograd;
    if (in_metric_of_loss) with_autograd.emplace(false);
    if (!stage_) {
      const bool whole = in_metric_of_loss || pass.see_features;
      const int64_t end = whole ? shard.end_sublayer : shard.end_run(job_.widths.mapped_count);
      stage_ = load_stage(job_.reader, job_.config, shard, end, job_.compute_dtype, job_.device);
    }
    if (lacks_head) {
      head_ = to_device(load_head(job_.reader, job_.config, job_.compute_dtype), job_.device);
    }
  }
  const PhaseClock::Scope scope(clock_, "forward");
  if (!back) {
    stream_through_stages(comm_, job_.config, *stage_, pass.windows, pass.see_state,
                          observer_.tokens_seen, pass.see_features);
    return;
  }
  const LossOfWindows loss{pass.windows, label_gradient(job_.config, head_, pass.numbers),
                           shard.checkpoints};
  stream_gradients(comm_, job_.config, *stage_, loss, pass.see_state, pass.see_gradient,
                   observer_.tokens_seen, clock_, pass.see_features);
}

void PipelinePasses::first(JunctionGroup& group) {
  Pass pass{job_.windows, job_.window_numbers, [&](int64_t junction, const at::Tensor& x) {
              if (StageJunction* found = group.find(junction)) add_first(job_, *found, x);
            }};
  if (job_.map.metric == Metric::kFisher) {
    pass.see_gradient = [&](int64_t junction, const at::Tensor& g) {
      if (StageJunction* found = group.find(junction)) found->first->add_gradient(g);
    };
  }
  run(pass);
}

void PipelinePasses::second(JunctionGroup& group) {
  run({job_.windows, job_.window_numbers, [&](int64_t number, const at::Tensor& x) {
         StageJunction* const junction = group.find(number);
         if (!junction) return;
         if (!junction->second) junction->second.emplace(junction->setup, junction->rotation);
         junction->second->add(x);
       }});
  for (StageJunction& junction : group.junctions) junction.rotation.reset();
}

void PipelinePasses::unload() {
  stage_.reset();
  head_ = {};
}

}  // namespace dotresize
