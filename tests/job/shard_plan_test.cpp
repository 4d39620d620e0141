#include "job/plan/shard_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/plan/memory_estimate.h"
#include "job/plan/work_estimate.h"
#include "tests/job/test_configs.h"

namespace dotresize {
namespace {

ShardPlan plan_for(const ModelConfig& config, int ranks) {
  return make_shard_plan(config, small_job(config, ranks));
}

TEST(ShardPlan, IsContiguousAndCoversEverySublayerForAnyNumberOfRanks) {
  const ModelConfig config = small_llama();
  for (int ranks = 1; ranks <= 12; ++ranks) {
    const ShardPlan plan = plan_for(config, ranks);
    ASSERT_EQ(plan.ranks.size(), static_cast<std::size_t>(ranks));
    int64_t next = 0;
    for (const RankShard& shard : plan.ranks) {
      EXPECT_EQ(shard.first_sublayer, next);
      EXPECT_GT(shard.end_sublayer, shard.first_sublayer);
      next = shard.end_sublayer;
    }
    EXPECT_EQ(next, config.num_sublayers());
  }
}

TEST(ShardPlan, ParametersOfTheRanksAddUpToTheModel) {
  const ModelConfig config = small_llama();
  for (const int ranks : {1, 3, 8}) {
    int64_t parameters = 0;
    int64_t bytes = 0;
    for (const RankShard& shard : plan_for(config, ranks).ranks) {
      parameters += shard.parameters;
      bytes += shard.bytes;
    }
    EXPECT_EQ(parameters, stored_parameters(config));
    EXPECT_EQ(bytes, 2 * stored_parameters(config));
  }
}

TEST(ShardPlan, NoRankHasMoreWorkThanItsShareAndOneSublayer) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  job.widths = uniform_widths(config, job.head_sliced, 3264);
  const std::vector<double> work = estimate_work(config, job);
  const double total = std::accumulate(work.begin(), work.end(), 0.0);
  const double largest = *std::max_element(work.begin(), work.end());
  for (const RankShard& shard : make_shard_plan(config, job).ranks) {
    const double share = std::accumulate(work.begin() + shard.first_sublayer,
                                         work.begin() + shard.end_sublayer, 0.0);
    EXPECT_LE(share, total / 8 + largest);
  }
}

TEST(ShardPlan, TheRankWithTheHeadHasFewerSublayers) {
  ModelConfig config = small_llama();
  config.vocab_size = 128256;
  const ShardPlan plan = plan_for(config, 2);
  EXPECT_LT(plan.ranks[1].end_sublayer - plan.ranks[1].first_sublayer, 4);
}

TEST(ShardPlan, MoreRanksThanSublayersIsAnErrorThatNamesTheKey) {
  const ModelConfig config = small_llama();
  try {
    plan_for(config, 13);
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("resources.ranks: 13 is not from 1 to 12"));
  }
}

TEST(ShardPlan, OwnersFollowTheShards) {
  const ShardPlan plan = plan_for(small_llama(), 5);
  for (int rank = 0; rank < 5; ++rank) {
    const RankShard& shard = plan.ranks[static_cast<std::size_t>(rank)];
    for (int64_t s = shard.first_sublayer; s < shard.end_sublayer; ++s) {
      EXPECT_EQ(plan.owner_of_sublayer(s), rank);
      EXPECT_EQ(plan.owner_of_junction(s + 1), rank);
    }
  }
  EXPECT_EQ(plan.owner_of_junction(0), 0);
}

TEST(ShardPlan, PipelineMemoryCountsTheMomentsOfEveryJunctionOfTheStage) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  const RankShard shard = make_shard_plan(config, job).ranks[1];
  const int64_t junctions = shard.end_sublayer - shard.first_sublayer;
  job.method = method_named("slicegpt");
  // Costs in float64 and the rotation in float32.
  EXPECT_EQ(shard.peak_memory_bytes - estimate_peak_memory(config, job, shard),
            junctions * 12 * 4096 * 4096);
}

TEST(ShardPlan, PipelineMemoryCountsTheMomentsOfEachGroupThatSharesAMap) {
  const ModelConfig config = small_llama();
  ResolvedJob job = small_job(config, 3);
  job.gpu_compute_dtype = Dtype::kBFloat16;
  const RankShard alone = make_shard_plan(config, job).ranks[1];
  constexpr int64_t kMoments = 28 * 256 * 256;
  const auto expect_groups = [&](const std::vector<int64_t>& group_of, int64_t groups) {
    job.junction_groups = group_of;
    const RankShard shard = make_shard_plan(config, job).ranks[1];
    ASSERT_EQ(shard.first_sublayer, 4);
    ASSERT_EQ(shard.end_sublayer, 9);  // junctions 5 to 9
    EXPECT_EQ(shard.peak_memory_bytes, alone.peak_memory_bytes + groups * kMoments);
    EXPECT_EQ(shard.peak_device_memory_bytes, *alone.peak_device_memory_bytes + groups * kMoments);
  };
  expect_groups({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1);
  expect_groups({0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 3, 3}, 2);  // and one junction by itself
}

TEST(ShardPlan, TokenParallelHoldsFarLessThanAStage) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 1);
  job.evaluation.reset();
  const int64_t pipeline = make_shard_plan(config, job).ranks[0].peak_memory_bytes;
  job.schedule = schedule_named("token_parallel");
  EXPECT_LT(make_shard_plan(config, job).ranks[0].peak_memory_bytes, pipeline / 2);
}

ModelConfig llama31_70b() {
  ModelConfig config = llama31();
  config.hidden_size = 8192;
  config.intermediate_size = 28672;
  config.num_layers = 80;
  config.num_heads = 64;
  config.junction_widths.assign(161, 8192);
  return config;
}

ResolvedJob job_70b(const ModelConfig& config) {
  ResolvedJob job = small_job(config, 8);
  job.widths = uniform_widths(config, job.head_sliced, 6528);
  job.calibration.seqlen = 2048;
  job.device = DeviceKind::kCuda;
  job.compute_dtype = Dtype::kBFloat16;
  job.gpu_compute_dtype = Dtype::kBFloat16;
  return job;
}

/// Moments of the stage's junctions, their maps, and the fold of an MLP; more than the passes need.
TEST(ShardPlan, DeviceMemoryOfA70BModelOverEightRanks) {
  const ModelConfig config = llama31_70b();
  const RankShard shard = make_shard_plan(config, job_70b(config)).ranks[3];
  const int64_t junctions = shard.end_sublayer - shard.first_sublayer;
  constexpr int64_t d = 8192;
  constexpr int64_t k = 6528;
  constexpr int64_t kMlp = 3 * d * 28672 + d * d;  // with the shortcut
  EXPECT_EQ(shard.peak_device_memory_bytes,
            junctions * (28 * d * d + 16 * d * k) + 4 * (4 * kMlp + 2 * d * k));
  EXPECT_EQ(shard.peak_memory_bytes, 12 * kMlp);  // the host reads, uploads and writes
}

/// Passes over the tokens: weights in the compute dtype, moments without costs, the decomposition.
TEST(ShardPlan, DeviceMemoryOfManyWeightsIsThatOfThePasses) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config);
  job.method = method_named("magnitude");
  job.widths = uniform_widths(config, job.head_sliced, 64);
  const RankShard shard = make_shard_plan(config, job).ranks[3];
  const int64_t junctions = shard.end_sublayer - shard.first_sublayer;
  constexpr int64_t d = 8192;
  EXPECT_EQ(shard.peak_device_memory_bytes, 2 * shard.parameters + (8 * junctions + 40) * d * d);
}

TEST(ShardPlan, DeviceMemoryOfTokenParallelHoldsOneJunctionAndOneSublayer) {
  const ModelConfig config = llama31_70b();
  ResolvedJob job = job_70b(config);
  job.evaluation.reset();
  job.schedule = schedule_named("token_parallel");
  constexpr int64_t d = 8192;
  constexpr int64_t k = 6528;
  constexpr int64_t kStream = 16 * 2048 * (d + k) * 4;
  constexpr int64_t kMlp = 3 * d * 28672 + d * d;
  EXPECT_EQ(make_shard_plan(config, job).ranks[3].peak_device_memory_bytes,
            kStream + 28 * d * d + 16 * d * k + 4 * (4 * kMlp + 2 * d * k) + 2 * kMlp + 56 * d * k);
}

TEST(ShardPlan, DeviceMemoryIsThatOfAGpuThatIsThereOrMayBe) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  EXPECT_EQ(make_shard_plan(config, job).ranks[1].peak_device_memory_bytes, std::nullopt);
  job.gpu_compute_dtype = Dtype::kBFloat16;  // device: auto
  const RankShard maybe = make_shard_plan(config, job).ranks[1];
  job.device = DeviceKind::kCuda;
  job.compute_dtype = Dtype::kBFloat16;
  const RankShard certain = make_shard_plan(config, job).ranks[1];
  EXPECT_EQ(maybe.peak_device_memory_bytes, certain.peak_device_memory_bytes);
  EXPECT_GT(maybe.peak_memory_bytes, certain.peak_memory_bytes);
}

TEST(ShardPlan, WarnsWhereAGpuHasLessMemoryThanThePlanWants) {
  RankShard shard;
  EXPECT_EQ(device_memory_warning(shard, 0), "");
  shard.peak_device_memory_bytes = int64_t{40} << 30;
  EXPECT_EQ(device_memory_warning(shard, int64_t{40} << 30), "");
  EXPECT_THAT(device_memory_warning(shard, int64_t{31} << 30),
              testing::StartsWith("the plan wants 40.0 GiB of the GPU's memory, of which 31.0 GiB "
                                  "are free"));
}

TEST(ShardPlan, OfAMixtureHoldsAllExpertsAndComputesAFew) {
  const ModelConfig config = parse_model_config(kMixtralConfig, "config.json");
  ResolvedJob job = small_job(config, 32);
  job.method = method_named("magnitude");
  job.evaluation.reset();
  const std::vector<double> work = estimate_work(config, job);
  const ModelConfig dense = parse_model_config(
      with(kMistralV03Config, R"("intermediate_size": 14336)", R"("intermediate_size": 28672)"),
      "config.json");
  EXPECT_NEAR(work[3] / estimate_work(dense, job)[3], 1.0, 0.1);
  const RankShard shard = make_shard_plan(config, job).ranks[1];
  constexpr int64_t kLayer = int64_t{8} * 3 * 14336 * 4096;
  EXPECT_GT(shard.bytes, 2 * kLayer);
  EXPECT_GT(shard.peak_memory_bytes, 2 * 8 * kLayer);  // folding, in float64
}

TEST(ShardPlan, LargestAcceptedSizesDoNotOverflow) {
  ModelConfig config = parse_model_config(
      R"({"model_type": "llama", "hidden_size": 4194304, "intermediate_size": 4194304,
          "num_hidden_layers": 4096, "num_attention_heads": 2048, "head_dim": 2048,
          "vocab_size": 4194304})",
      "config.json");
  ResolvedJob job = small_job(config, 4096);
  job.widths = uniform_widths(config, job.head_sliced, 4194304);
  EXPECT_GT(stored_parameters(config), 0);
  ModelConfig folded = config;
  folded.compressed = true;
  EXPECT_GT(stored_parameters(folded), stored_parameters(config));
  for (const RankShard& shard : make_shard_plan(config, job).ranks) {
    EXPECT_GT(shard.peak_memory_bytes, shard.bytes);
  }
}

}  // namespace
}  // namespace dotresize
