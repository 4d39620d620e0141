#include <gmock/gmock.h>

#include "base/text/human_text.h"
#include "job/plan/estimate/peak_memory.h"
#include "job/plan/shards/shard_plan.h"
#include "job/plan/steps/step.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

ModelConfig llama31_70b() {
  ModelConfig config = llama31();
  config.hidden_size = 8192;
  config.layers.resize(80, config.layers.front());
  for (LayerSpec& layer : config.layers) {
    layer.attention.num_heads = 64;
    layer.mlp.intermediate_size = 28672;
  }
  config.form.junction_widths.assign(161, 8192);
  return config;
}

/// Returns a job on GPUs that removes 20 %, with 128 windows of 2048 tokens and an evaluation.
ResolvedJob job_70b(const ModelConfig& config, int ranks) {
  ResolvedJob job = small_job(config, ranks);
  job.widths = uniform_widths(config, job.maps.head_sliced, 6528);
  job.calibration.samples = 128;
  job.calibration.seqlen = 2048;
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kBFloat16;
  job.output.dtypes.main = Dtype::kBFloat16;
  job.resources.gpu_compute_dtype = Dtype::kBFloat16;
  return job;
}

TEST(MemoryEstimate, Of70BFitsEightGpusOf32GiBInTwoGroups) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 8);
  EXPECT_GT(peak_device_memory(make_shard_plan(config, job)), 30 * kGiB);
  job.resources.device_memory = 30 * kGiB;
  const ShardPlan plan = make_shard_plan(config, job);
  EXPECT_EQ(plan.junction_groups, 2);
  EXPECT_LE(peak_device_memory(plan), 30 * kGiB);
  EXPECT_LE(peak_memory(plan), 32 * kGiB);
}

TEST(MemoryEstimate, Of70BIsHealedOnEightGpusOf32GiB) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 8);
  job.resources.gpu_compute_dtype = job.resources.compute_dtype = Dtype::kFloat16;
  job.output.dtypes.main = Dtype::kFloat16;
  job.resources.device_memory = 30 * kGiB;
  const auto healing = [&](const ShardPlan& plan) {
    int64_t most = 0;
    for (const RankShard& shard : plan.ranks) {
      if (!kHealStep.runs(job)) continue;
      const RankSizes rank({config, job, shard, DeviceKind::kCuda, Dtype::kFloat16});
      most = std::max(most, kHealStep.memory(rank));
    }
    return most;
  };
  EXPECT_EQ(healing(make_shard_plan(config, job)), 0);
  job.healing = Healing{.samples = {}, .epochs = 0};
  EXPECT_EQ(healing(make_shard_plan(config, job)), 0);
  job.healing = Healing{};
  const ShardPlan plan = make_shard_plan(config, job);
  EXPECT_EQ(plan.ranks.front().checkpoints, Checkpoints::kStage);
  EXPECT_LE(peak_device_memory(plan), 30 * kGiB);
  EXPECT_GT(healing(plan), 20 * kGiB);  // 8.6e9 weights in 2 bytes, updates, backward pass
}

TEST(MemoryEstimate, MlpsOf70BAreCutInAsManyGroupsAsMemoryNeeds) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 8);
  job.mlp = MlpTarget{{}, 23744, 0};
  job.resources.device_memory = 36 * kGiB;
  EXPECT_EQ(make_shard_plan(config, job).cut_groups, 1);
  job.resources.device_memory = 32 * kGiB;
  ShardPlan plan = make_shard_plan(config, job);
  EXPECT_TRUE(fits(plan, job));
  EXPECT_EQ(plan.cut_groups, 2);  // 10 MLPs a rank, 1.7 GiB each
  ResolvedJob by_loss = job;
  by_loss.mlp->allocated = by_loss.mlp->by_layer = true;
  by_loss.mlp->round_to = 64;
  by_loss.target.allocation = AllocationTarget{.size = 0.8};
  by_loss.maps.metric = Metric::kFisher;
  plan = make_shard_plan(config, by_loss);
  EXPECT_TRUE(fits(plan, by_loss));
  EXPECT_GT(plan.cut_groups, 1);
  EXPECT_EQ(plan.cut_passes, plan.cut_rounds * plan.cut_groups + 1);
  EXPECT_EQ(plan.cut_passes_back, 1) << "one takes the gradients of all groups";
  job.schedule = schedule_named("layerwise");
  EXPECT_TRUE(fits(make_shard_plan(config, job), job));
  job.resources.device_memory = 24 * kGiB;
  EXPECT_FALSE(fits(make_shard_plan(config, job), job));
}

TEST(MemoryEstimate, Of70BFitsOneLargeGpuSublayerBySublayer) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 1);
  job.resources.device_memory = 79 * kGiB;
  job.resources.memory = 256 * kGiB;
  EXPECT_FALSE(fits(make_shard_plan(config, job), job));  // the weights alone take 131 GiB
  job.schedule = schedule_named("layerwise");
  EXPECT_TRUE(fits(make_shard_plan(config, job), job));
}

TEST(MemoryEstimate, LayerwiseKeepsAsManyStreamsAsFitTheBudget) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 8);
  job.schedule = schedule_named("layerwise");
  const ShardPlan free = make_shard_plan(config, job);
  EXPECT_EQ(free.ranks.front().solved_together, 8);
  int64_t before = 8;
  // A smaller budget gives up overlaps, which makes room for more streams again. Two streams take
  // no more memory than folding.
  for (int64_t budget = peak_device_memory(free); before > 2; budget -= kGiB / 2) {
    job.resources.device_memory = budget;
    const ShardPlan plan = make_shard_plan(config, job);
    ASSERT_TRUE(fits(plan, job)) << human_bytes(budget);
    for (const RankShard& shard : plan.ranks) {
      ASSERT_LE(shard.solved_together, before);
      ASSERT_EQ(shard.solved_together, plan.ranks.front().solved_together);
    }
    before = plan.ranks.front().solved_together;
  }
  EXPECT_LT(*job.resources.device_memory, 12 * kGiB);
  // A 1 GiB share of the stream waits for each junction. With slicegpt, which reads the tokens
  // once, none waits, and folding takes the most memory.
  job.resources.device_memory.reset();
  job.method = method_named("slicegpt");
  const ShardPlan once = make_shard_plan(config, job);
  EXPECT_EQ(once.ranks.front().solved_together, 8);
  EXPECT_LT(peak_device_memory(once), peak_device_memory(free) - 5 * kGiB);
}

TEST(MemoryEstimate, OfAJobThatUsesStatisticsHasNoStage) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config, 8);
  const ShardPlan plain = make_shard_plan(config, job);
  job.statistics.use = "/s";
  const ShardPlan used = make_shard_plan(config, job);
  EXPECT_LT(peak_device_memory(used), peak_device_memory(plain) - plain.ranks[1].size.bytes / 2);
}

/// Junction groups of a method on a CPU and on a GPU.
class JunctionGroups : public testing::TestWithParam<std::string> {};

TEST_P(JunctionGroups, AreAsFewAsTheBudgetAllows) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  job.method = method_named(GetParam());
  job.widths = uniform_widths(config, job.maps.head_sliced, 3264);
  const ShardPlan free = make_shard_plan(config, job);
  EXPECT_EQ(free.junction_groups, 1);
  job.resources.memory = 1;
  const ShardPlan tightest = make_shard_plan(config, job);
  EXPECT_EQ(tightest.ranks[1].junctions_at_once, 1);
  ASSERT_LT(peak_memory(tightest), peak_memory(free));

  int64_t groups_before = free.junction_groups;
  for (int64_t budget = peak_memory(free); budget >= peak_memory(tightest); budget -= kGiB / 8) {
    job.resources.memory = budget;
    const ShardPlan plan = make_shard_plan(config, job);
    EXPECT_LE(peak_memory(plan), budget);
    EXPECT_GE(plan.junction_groups, groups_before);
    groups_before = plan.junction_groups;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, JunctionGroups,
                         testing::Values("magnitude", "dotresize", "slicegpt", "pca_dotresize"),
                         [](const auto& method) { return method.param; });

/// The job has two layers on CPUs, like scripts/bench.sh scale.
TEST(MemoryEstimate, Of70BWidthFitsTwoRanksOf9GiBInBothSchedules) {
  ModelConfig config = llama31_70b();
  config.layers.resize(2);
  ResolvedJob job = small_job(config, 2);
  job.widths = uniform_widths(config, job.maps.head_sliced, 6528);
  job.output.dtypes.main = Dtype::kBFloat16;
  job.resources.memory = 9 * kGiB;
  for (const char* method : {"pca_dotresize", "dotresize"}) {
    for (const char* schedule : {"pipeline", "token_parallel"}) {
      job.method = method_named(method);
      job.schedule = schedule_named(schedule);
      EXPECT_TRUE(fits(make_shard_plan(config, job), job)) << method << ", " << schedule;
    }
  }
}

TEST(MemoryEstimate, OverlapsAreGivenUpForMemoryAndSaveSome) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 2);
  job.schedule = schedule_named("token_parallel");
  const ShardPlan free = make_shard_plan(config, job);
  EXPECT_TRUE(free.ranks.front().overlaps);
  job.resources.memory = peak_memory(free) - 1;
  const ShardPlan lean = make_shard_plan(config, job);
  EXPECT_FALSE(lean.ranks.front().overlaps);
  EXPECT_LE(peak_memory(lean), *job.resources.memory);
}

TEST(MemoryEstimate, OfGradientsCountsTheirSumsAndWhatIsUnderWay) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  job.method = method_named("slicegpt");
  const auto peak = [&](std::size_t rank, int64_t junctions) {
    RankShard shard = make_shard_plan(config, job).ranks[rank];
    shard.junctions_at_once = junctions;
    return estimate_peak_memory(config, job, shard);
  };
  const int64_t without = peak(0, 2);
  job.maps.metric = Metric::kFisher;
  EXPECT_GT(peak(0, 2), without);
  // The sums of both kinds are kept until the junction is decomposed.
  EXPECT_EQ(peak(1, 6) - peak(1, 5), int64_t{2} * 8 * 4096 * 4096);
}

TEST(MemoryEstimate, OfAGroupCountsEachOfItsJunctions) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  RankShard shard = make_shard_plan(config, job).ranks[1];
  const auto peak = [&](int64_t junctions) {
    shard.junctions_at_once = junctions;
    return estimate_peak_memory(config, job, shard);
  };
  // Second pass: U in float64 and float32, and the costs.
  constexpr int64_t kJunction = int64_t{20} * 4096 * 4096;
  EXPECT_EQ(peak(6) - peak(5), kJunction);
  EXPECT_EQ(peak(5) - peak(4), kJunction);
}

TEST(MemoryEstimate, OfTokenParallelDoesNotGrowWithTheModelsDepth) {
  ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 1);
  job.schedule = schedule_named("token_parallel");
  const int64_t peak = peak_memory(make_shard_plan(config, job));
  config.layers.resize(64, config.layers.front());
  config.form.junction_widths.assign(2 * 64 + 1, 4096);
  job.widths = uniform_widths(config, job.maps.head_sliced, job.widths.largest());
  EXPECT_EQ(peak_memory(make_shard_plan(config, job)), peak);
}

TEST(MemoryEstimate, OfTurnsCountsWhatTheRankItselfReads) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = small_job(config, 2);
  job.schedule = schedule_named("token_parallel");
  const auto peak = [&](std::size_t rank) {
    const ShardPlan plan = make_shard_plan(config, job);
    RankShard shard = plan.ranks[rank];
    shard.first_sublayer = plan.ranks.front().first_sublayer;
    shard.end_sublayer = plan.ranks.front().end_sublayer;
    return estimate_peak_memory(config, job, shard);
  };
  EXPECT_LT(peak(0), peak(1));  // one of two ranks has all attentions, the other all MLPs
  job.resources.ranks = 3;
  EXPECT_EQ(peak(0), peak(1));
}

TEST(MemoryEstimate, OfAComparisonCountsTheStatesOfBothModels) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 1);
  job.calibration.samples = 8192;  // 8 GiB of stream, larger than all else
  const ShardPlan plan = make_shard_plan(config, job);
  const auto evaluating = [&] {
    return evaluation_memory(
        RankSizes({config, job, plan.ranks.front(), DeviceKind::kCpu, Dtype::kFloat32}));
  };
  const int64_t stream = int64_t{8192} * 256 * 4096 * 4;
  const int64_t compared = evaluating();
  EXPECT_GT(compared, 2 * stream);
  job.evaluation->kl = false;
  EXPECT_GT(evaluating(), stream);
  EXPECT_LT(evaluating(), compared - stream / 2);
}

TEST(MemoryEstimate, MoreRanksNeedLessEach) {
  const ModelConfig config = llama31_70b();
  for (const char* schedule : {"pipeline", "token_parallel"}) {
    ResolvedJob few = job_70b(config, 2);
    ResolvedJob many = job_70b(config, 8);
    few.schedule = many.schedule = schedule_named(schedule);
    EXPECT_LT(peak_device_memory(make_shard_plan(config, many)),
              peak_device_memory(make_shard_plan(config, few)))
        << schedule;
  }
}

TEST(MemoryEstimate, OfAGpuIsThatOfOneThatIsThereOrMayBe) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  EXPECT_EQ(make_shard_plan(config, job).ranks[1].peak_device_memory_bytes, std::nullopt);
  job.resources.gpu_compute_dtype = Dtype::kBFloat16;  // device: auto
  const RankShard maybe = make_shard_plan(config, job).ranks[1];
  job.resources.device = DeviceKind::kCuda;
  job.resources.compute_dtype = Dtype::kBFloat16;
  const RankShard certain = make_shard_plan(config, job).ranks[1];
  EXPECT_EQ(maybe.peak_device_memory_bytes, certain.peak_device_memory_bytes);
  EXPECT_GT(*maybe.peak_device_memory_bytes, 0);
}

TEST(HumanBytes, RoundedUpIsNeverLess) {
  for (int64_t bytes = 1; bytes < int64_t{1} << 45; bytes = bytes * 3 + 7) {
    const std::string text = human_bytes_rounded_up(bytes);
    ASSERT_TRUE(parse_bytes(text)) << text;
    EXPECT_GE(*parse_bytes(text), bytes) << text;
    EXPECT_LE(static_cast<double>(*parse_bytes(text)), 1.011 * static_cast<double>(bytes) + 1);
  }
}

}  // namespace
}  // namespace dotresize
