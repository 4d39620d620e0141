#include "job/plan/shards/shard_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/plan/estimate/estimates.h"
#include "tests/job/model/test_configs.h"

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
      parameters += shard.size.parameters;
      bytes += shard.size.bytes;
    }
    EXPECT_EQ(parameters, stored_parameters(config));
    EXPECT_EQ(bytes, 2 * stored_parameters(config));
  }
}

TEST(ShardPlan, NoRankHasMoreWorkThanItsShareAndOneSublayer) {
  const ModelConfig config = llama31();
  ResolvedJob job = small_job(config, 8);
  job.widths = uniform_widths(config, job.maps.head_sliced, 3264);
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
  EXPECT_GT(shard.size.bytes, 2 * kLayer);
  EXPECT_GT(shard.peak_memory_bytes, 4 * kLayer);  // folding, in float32
}

TEST(ShardPlan, LargestAcceptedSizesDoNotOverflow) {
  ModelConfig config = parse_model_config(
      R"({"model_type": "llama", "hidden_size": 4194304, "intermediate_size": 4194304,
          "num_hidden_layers": 4096, "num_attention_heads": 2048, "head_dim": 2048,
          "vocab_size": 4194304})",
      "config.json");
  ResolvedJob job = small_job(config, 2);  // so that a rank holds thousands of layers
  job.widths = uniform_widths(config, job.maps.head_sliced, 4194304);
  EXPECT_GT(stored_parameters(config), 0);
  ModelConfig folded = config;
  folded.compressed = true;
  EXPECT_GT(stored_parameters(folded), stored_parameters(config));
  for (const RankShard& shard : make_shard_plan(config, job).ranks) {
    EXPECT_GT(shard.peak_memory_bytes, 0);
  }
}

}  // namespace
}  // namespace dotresize
