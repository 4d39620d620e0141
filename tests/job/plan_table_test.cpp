#include "job/plan_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/job/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string table(const ResolvedJob& job) {
  return plan_table(small_llama(), job, make_shard_plan(small_llama(), job));
}

json document(const ResolvedJob& job) {
  return json::parse(plan_to_json(small_llama(), job, make_shard_plan(small_llama(), job)));
}

ResolvedJob job_of_width(int64_t width) {
  ResolvedJob job = small_job(small_llama(), 3);
  job.width = width;
  job.junction_widths.assign(13, width);
  job.junction_widths.back() = 256;
  return job;
}

TEST(PlanTable, NamesWhatEachRankHolds) {
  const std::string text = table(small_job(small_llama(), 1));
  EXPECT_THAT(text, HasSubstr("embed, layers.0 attention … layers.5 mlp, head"));
  EXPECT_THAT(text, HasSubstr("6,622,464"));
  EXPECT_THAT(text, HasSubstr("12.6 MiB"));
}

TEST(PlanTable, AStockModelHasNoShortcutsInItsSize) {
  ResolvedJob job = job_of_width(208);
  job.map_sharing.kind = MapSharing::Kind::kModel;
  job.junction_widths.back() = 208;
  job.junction_groups.assign(13, 0);
  EXPECT_EQ(document(job)["compressed"]["parameters"], 5'380'752);
  EXPECT_THAT(table(job), HasSubstr("81.2 % of the dense parameters"));
}

TEST(PlanTable, ARankWithOneSublayerNamesItOnce) {
  EXPECT_THAT(table(small_job(small_llama(), 12)), HasSubstr("\n   2  layers.1 attention  "));
}

TEST(PlanTable, WarnsOnlyWhereTheResultIsNotSmaller) {
  EXPECT_THAT(table(job_of_width(176)), Not(HasSubstr("warning")));
  EXPECT_THAT(table(job_of_width(248)),
              HasSubstr("\nwarning: at width 248 the result is not smaller than the dense model"));
  EXPECT_THAT(document(job_of_width(176))["warnings"], testing::IsEmpty());
  EXPECT_THAT(document(job_of_width(248))["warnings"], testing::SizeIs(1));
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

}  // namespace
}  // namespace dotresize
