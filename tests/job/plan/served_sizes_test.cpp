#include "job/plan/served_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/model/engine_formats.h"
#include "job/model/model_size.h"
#include "job/plan/plan_table.h"
#include "job/plan/shards/rank_shard.h"
#include "tests/job/model/test_configs.h"
#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

FormatSize size_of(const ModelConfig& config, const std::string& format) {
  const std::vector<FormatSize> sizes = format_sizes(config);
  return *std::ranges::find(sizes, format, &FormatSize::format);
}

TEST(WeightFormats, AreThoseOfThePublishedFiles) {
  // Llama-3.1-8B-Instruct. The published files hold another 7.8 MB of vocabulary.
  EXPECT_EQ(size_of(llama31(), "Q8_0").bytes, 8'532'934'656);
  EXPECT_EQ(size_of(llama31(), "Q4_K_M").bytes, 4'912'898'048);
  EXPECT_EQ(size_of(llama31(), "float16").bytes, 2 * 8'030'261'248);
}

TEST(WeightFormats, CountTheZerosThatFilesOfGgufHaveForFeatures) {
  ModelConfig config = llama31();
  for (LayerSpec& layer : config.layers) layer.mlp.intermediate_size -= 8;
  for (const char* const format : {"float16", "Q8_0", "Q4_K_M"}) {
    EXPECT_EQ(size_of(config, format).bytes, size_of(llama31(), format).bytes) << format;
    EXPECT_THAT(size_of(config, format).unfit_rows, IsEmpty()) << format;
  }
  EXPECT_LT(size_of(config, "FP8").bytes, size_of(llama31(), "float16").bytes);
  EXPECT_THAT(size_of(config, "FP8").unfit_rows, ElementsAre(14328));
}

class ServedSizesOf : public ResolveJob {
 protected:
  ServedSizesOf() { config_ = llama31(); }
  ResolvedJob job(const std::string& method, const std::string& format = "stock") {
    text("name: n\nmodel: {path: m}\noutput: {path: o, format: " + format + "}\nmethod: " + method +
         "\ncalibration: {text: [c.txt]}\n");
    return resolve();
  }
  double q4_k_m_of_dense(const ResolvedJob& job) const {
    const ServedSize size = make_job_plan(config_, job).served.formats.at(2);
    EXPECT_EQ(size.format, "Q4_K_M");
    return static_cast<double>(size.compressed_bytes) / static_cast<double>(size.dense_bytes);
  }
  std::string plan(const ResolvedJob& job) const { return plan_table(make_job_plan(config_, job)); }
};

TEST_F(ServedSizesOf, AStockOutputOfASizeHasNoRowsThatQuantizersCannotDivide) {
  for (const bool allocated : {true, false}) {
    const ResolvedJob stock = job(allocated ? "{size: 0.8}" : "{name: slicegpt, size: 0.8}");
    const ServedSizes sizes = make_job_plan(config_, stock).served;
    ASSERT_EQ(sizes.formats.size(), 5u);
    for (const ServedSize& each : sizes.formats) {
      EXPECT_THAT(each.unfit_rows, IsEmpty()) << each.format;
    }
    EXPECT_LE(q4_k_m_of_dense(stock), 0.82);
    EXPECT_EQ(sizes.assumed_features > 0, allocated);
    EXPECT_THAT(plan(stock), Not(HasSubstr("larger type")));
  }
}

TEST_F(ServedSizesOf, AWidthThatAQuantizerCannotDivideIsWarnedOf) {
  const ResolvedJob of_paper = job("{name: slicegpt, sparsity: 0.2}");
  EXPECT_EQ(of_paper.widths.largest(), 3264);
  const std::string table = plan(of_paper);
  EXPECT_THAT(table, HasSubstr("\n\nserved as "));
  EXPECT_THAT(table, HasSubstr("\nwarning: Q4_K_M stores rows of 3264 in a larger type"));
  const auto document = nlohmann::json::parse(plan_to_json(make_job_plan(config_, of_paper)));
  EXPECT_EQ(document["served"]["formats"][2]["unfit_rows"], nlohmann::json({3264}));
}

TEST_F(ServedSizesOf, RowsThatAreNoMultipleOfTheBlockTakeALargerType) {
  EXPECT_NEAR(q4_k_m_of_dense(job("{name: slicegpt, width: 3264}")), 0.92, 0.005);
  EXPECT_NEAR(q4_k_m_of_dense(job("{name: slicegpt, width: 3648}")), 1.03, 0.005);
}

TEST_F(ServedSizesOf, EnginesLoadNoCustomOutput) {
  EXPECT_THAT(make_job_plan(config_, job("{size: 0.8}", "any")).served.formats, IsEmpty());
  EXPECT_THAT(plan(job("{size: 0.8}", "any")), Not(HasSubstr("served as")));
}

}  // namespace
}  // namespace dotresize
