#include "job/plan/plan_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "job/plan/allocate/allocation.h"
#include "job/plan/resolve/asked_size.h"
#include "job/plan/shards/rank_shard.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string table(const ResolvedJob& job) { return plan_table(make_job_plan(small_llama(), job)); }

json document(const ResolvedJob& job) {
  return json::parse(plan_to_json(make_job_plan(small_llama(), job)));
}

ResolvedJob job_of_width(int64_t width) {
  ResolvedJob job = small_job(small_llama(), 3);
  job.widths = uniform_widths(small_llama(), job.maps.head_sliced, width);
  return job;
}

TEST(PlanTable, NamesWhatEachRankHolds) {
  const std::string text = table(small_job(small_llama(), 1));
  EXPECT_THAT(text, HasSubstr("embed, layers.0 attention … layers.5 mlp, head"));
  EXPECT_THAT(text, HasSubstr("6,622,464"));
  EXPECT_THAT(text, HasSubstr("12.6 MiB"));
}

TEST(PlanTable, StatisticsTakeThePlaceOfThePasses) {
  ResolvedJob job = small_job(small_llama(), 1);
  const json plain = document(job);
  job.statistics.save = "/s";
  const json saving = document(job);
  // Gram matrix, basis and costs of each junction, including the last one.
  EXPECT_EQ(saving["traffic"]["statistics_bytes"], 13 * 3 * 256 * 256 * 8);
  EXPECT_EQ(saving["passes"], plain["passes"]);
  EXPECT_GT(saving["traffic"]["written_bytes"], plain["traffic"]["written_bytes"]);
  job.statistics = {"", "/s"};
  const json used = document(job);
  EXPECT_EQ(used["passes"], 0);
  EXPECT_EQ(used["traffic"]["written_bytes"], plain["traffic"]["written_bytes"]);
  EXPECT_THAT(table(job), HasSubstr("passes      none over the tokens: the statistics of /s"));
}

TEST(PlanTable, AStockModelHasNoShortcutsInItsSize) {
  ResolvedJob job = small_job(small_llama(), 3);
  job.maps.shared = true;
  job.maps.head_sliced = true;
  job.widths = uniform_widths(small_llama(), job.maps.head_sliced, 208);
  EXPECT_THAT(table(job), StartsWith("small: pca_dotresize, format stock, pipeline schedule\n"));
  EXPECT_EQ(document(job)["compressed"]["parameters"], 5'380'752);
  EXPECT_THAT(table(job), HasSubstr("81.2 % of the dense parameters"));
}

TEST(PlanTable, TellsTheTargetTheNominalWidthAndTheNetSize) {
  ResolvedJob job = job_of_width(176);
  job.target.sparsity.reset();
  job.target.size = 0.85;
  const std::string text = table(job);
  EXPECT_THAT(text, StartsWith("small: pca_dotresize, format any, pipeline schedule\n"));
  EXPECT_THAT(text, HasSubstr("\ntarget      size 0.85\n"));
  EXPECT_THAT(text, HasSubstr("\nnominal     width 176 of 256, 31.2 % narrower\n"));
  EXPECT_THAT(text, HasSubstr("\nshortcuts   exact, 11 of rank 80, 1 of rank 0\n"));
  EXPECT_THAT(text, HasSubstr("76.9 % of the dense parameters, 76.9 % of the bytes"));
  EXPECT_EQ(document(job)["target"], "size 0.85");
  EXPECT_EQ(document(job)["nominal_sparsity"], 1.0 - 176.0 / 256.0);
}

TEST(PlanTable, BytesCountAsTheyAreWritten) {
  ResolvedJob job = job_of_width(128);
  job.output.dtypes.main = Dtype::kFloat32;
  const json plan = document(job);
  EXPECT_DOUBLE_EQ(plan["compressed"]["bytes_fraction"].get<double>(),
                   2.0 * plan["compressed"]["parameters_fraction"].get<double>());
  EXPECT_THAT(table(job),
              HasSubstr("remedies: output.dtype: same, a smaller width, one map for all "
                        "(output.format: stock), which needs no shortcuts, "));
}

TEST(PlanTable, MixedDtypesAreTold) {
  ModelConfig config = small_llama();
  ResolvedJob job = job_of_width(128);
  config.files.dtypes.set("model.layers.1.input_layernorm.weight", Dtype::kFloat32);
  config.files.dtypes.set("model.embed_tokens.weight", Dtype::kFloat32);
  job.output.dtypes = config.files.dtypes;
  const JobPlan plan = make_job_plan(config, job);
  EXPECT_THAT(plan_table(plan), HasSubstr("  bfloat16, some float32\n"));
  const json document = json::parse(plan_to_json(plan));
  EXPECT_EQ(document["dense"]["other_dtypes"],
            json({{"model.embed_tokens.weight", "float32"},
                  {"model.layers.1.input_layernorm.weight", "float32"}}));
  // The norms are folded into the matrices behind them.
  EXPECT_EQ(document["compressed"]["other_dtypes"],
            json({{"model.embed_tokens.weight", "float32"}}));
  EXPECT_EQ(document["dense"]["bytes"], 13'244'928 + 2 * (4096 + 1) * 256);
  EXPECT_EQ(document["compressed"]["bytes"],
            2 * document["compressed"]["parameters"].get<int64_t>() + 2 * 4096 * 128);
}

TEST(PlanTable, BytesOnDiskAreToldIfTheModelHasFewer) {
  ModelConfig config = small_llama();
  const auto plan = [&] { return make_job_plan(config, job_of_width(128)); };
  EXPECT_FALSE(json::parse(plan_to_json(plan()))["dense"].contains("file_bytes"));
  config.files.bytes = 13'244'928;
  EXPECT_THAT(plan_table(plan()), Not(HasSubstr("on disk")));
  config.files.bytes += 1 << 20;
  EXPECT_THAT(plan_table(plan()),
              HasSubstr("\non disk     13.6 MiB of tensors, 1.00 MiB of them not of the model\n"));
  const json dense = json::parse(plan_to_json(plan()))["dense"];
  EXPECT_EQ(dense["bytes"], 13'244'928);
  EXPECT_EQ(dense["file_bytes"], 13'244'928 + (1 << 20));
}

TEST(PlanTable, SizesThatTheLossWillDecideHaveABoundAlone) {
  ResolvedJob job = job_of_width(256);
  job.target.sparsity.reset();
  job.target.allocation = AllocationTarget{.size = 0.8};
  EXPECT_THAT(table(job), HasSubstr("target      size 0.8, allocated by loss\n"));
  EXPECT_THAT(table(job),
              HasSubstr("compressed  at most 10,595,942 bytes, 80.0 % of the dense ones"));
  json compressed = document(job)["compressed"];
  // All parameters but the embedding and the last norm, before and after.
  const double dense = 6'622'464 - 4096 * 256 - 256;
  EXPECT_NEAR(compressed["speed"].get<double>(), dense / (dense - 0.2 * 6'622'464), 1e-9);
  compressed.erase("speed");
  EXPECT_EQ(compressed, json({{"dtype", "bfloat16"},
                              {"bytes_at_most", 10'595'942},
                              {"bytes_fraction_at_most", 0.8}}));
  EXPECT_FALSE(document(job).contains("width"));
  EXPECT_THAT(document(job)["warnings"], testing::IsEmpty());
}

TEST(PlanTable, ASizeThatLeavesLittleOfTheLayersIsWarnedOf) {
  ResolvedJob job = job_of_width(256);
  job.target.sparsity.reset();
  job.target.allocation = AllocationTarget{.size = 0.6};
  job.target.asked.value = "0.6";
  const std::string warning =
      "method.size 0.6: embedding and head, 32 % of the model, are not cut, so the layers would "
      "keep 41 % of their bytes; below 55 % published models lose most of what they know, so give "
      "a size of 0.70 or more, or first take tokens from the model with `dotresize vocabulary`";
  EXPECT_THAT(table(job),
              HasSubstr("by counted multiplications, the head's included\nwarning: " + warning));
  EXPECT_EQ(document(job)["warnings"], json({warning}));
}

TEST(PlanTable, BytesThatANarrowerDtypeSavesAreNotTakenFromTheLayers) {
  ResolvedJob job = job_of_width(256);
  job.target.sparsity.reset();
  ModelConfig config = small_llama();
  config.files.dtypes.main = Dtype::kFloat32;  // the output has bfloat16
  job.target.allocation = AllocationTarget{.size = 0.4};
  EXPECT_EQ(allocation_warning(config, job), "");
  job.target.allocation->size = 0.3;
  EXPECT_THAT(allocation_warning(config, job),
              AllOf(HasSubstr("32 % of the model"), HasSubstr("keep 41 % of their bytes"),
                    HasSubstr("give a size of 0.35 or more")));
  EXPECT_DOUBLE_EQ(*speed_at_size(0.6, config, job.output.dtypes), 1.0);
  job.widths = decided(job.widths, config.hidden_size);  // no maps
  job.target.allocation->size = 0.6;
  const json compressed = json::parse(plan_to_json(make_job_plan(config, job)))["compressed"];
  EXPECT_EQ(compressed["bytes_at_most"], 13'244'928);
  EXPECT_EQ(compressed["bytes_fraction_at_most"], 0.5);
}

TEST(PlanTable, ARankWithOneSublayerNamesItOnce) {
  EXPECT_THAT(table(small_job(small_llama(), 12)), HasSubstr("\n   2  layers.1 attention  "));
}

TEST(PlanTable, HasTheMemoryOfGpusWhereTheyMayBeUsed) {
  ResolvedJob job = job_of_width(176);
  EXPECT_THAT(table(job), HasSubstr("  peak memory\n"));
  EXPECT_FALSE(document(job)["ranks"][0].contains("peak_device_memory_bytes"));
  job.resources.gpu_compute_dtype = Dtype::kBFloat16;
  EXPECT_THAT(table(job), HasSubstr("  peak memory  GPU memory\n"));
  EXPECT_GT(document(job)["ranks"][0]["peak_device_memory_bytes"], 0);
}

TEST(PlanTable, WarnsOnlyWhereTheResultIsNotSmaller) {
  EXPECT_THAT(table(job_of_width(176)), Not(HasSubstr("warning")));
  EXPECT_THAT(table(job_of_width(248)), Not(HasSubstr("warning")));
  ResolvedJob wider = job_of_width(248);
  wider.output.dtypes.main = Dtype::kFloat32;
  EXPECT_THAT(table(wider), HasSubstr("\nwarning: the result, "));
  EXPECT_THAT(table(wider),
              HasSubstr(" parameters as float32), is not smaller than the dense model, "
                        "13,244,928 bytes"));
  EXPECT_THAT(document(job_of_width(176))["warnings"], testing::IsEmpty());
  EXPECT_THAT(document(wider)["warnings"], testing::SizeIs(1));
}

TEST(PlanTable, JsonSaysTheSame) {
  const json plan = document(job_of_width(176));
  EXPECT_EQ(plan["schema_version"], 1);
  ASSERT_EQ(plan["ranks"].size(), 3u);
  EXPECT_EQ(plan["ranks"][0]["first_sublayer"], 0);
  EXPECT_EQ(plan["ranks"][2]["end_sublayer"], 12);
  EXPECT_THAT(plan["ranks"][2]["sublayers"].get<std::string>(), testing::EndsWith(", head"));
  EXPECT_EQ(plan["dense"]["parameters"], 6622464);
  EXPECT_EQ(plan["compressed"]["dtype"], "bfloat16");
  EXPECT_DOUBLE_EQ(plan["ratio"].get<double>(),
                   plan["compressed"]["parameters"].get<double>() / 6622464.0);
}

/// A plan's time, of phases that are given.
TimeEstimate some_time() { return {{{{"read", 12.346}, {"forward", 1087.4}, {"hash", 0.25}}}}; }

TEST(TimeTable, ShowsPhasesAndTheTotal) {
  EXPECT_EQ(time_table(some_time()),
            "time        18 min 20 s\n"
            "phase        s   share\n"
            "read     12.35   1.1 %\n"
            "forward  1,087  98.9 %\n"
            "hash      0.25   0.0 %");
}

TEST(TimeTable, IsAtTheEndOfThePlan) {
  const ResolvedJob job = small_job(small_llama(), 3);
  const std::string without = table(job);
  EXPECT_EQ(plan_table(make_job_plan(small_llama(), job), some_time()),
            without + "\n\n" + time_table(some_time()));
  EXPECT_THAT(without, Not(HasSubstr("time  ")));
}

TEST(TimeTable, JsonHasSecondsByPhase) {
  const ResolvedJob job = small_job(small_llama(), 3);
  const json timed = json::parse(plan_to_json(make_job_plan(small_llama(), job), some_time()));
  EXPECT_DOUBLE_EQ(timed["seconds"]["total"], some_time().total());
  EXPECT_EQ(timed["seconds"]["phases"],
            json({{"read", 12.346}, {"forward", 1087.4}, {"hash", 0.25}}));
  EXPECT_FALSE(document(job).contains("seconds"));
}

}  // namespace
}  // namespace dotresize
