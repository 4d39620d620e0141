#include <gmock/gmock.h>

#include "job/page/page.h"
#include "job/report/report_tables.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ComparedModel model_of(const std::string& path, const std::string& tokens) {
  ReportSummary summary;
  summary.name = "job";
  summary.method = "slicegpt";
  summary.target = "size 0.8, allocated";
  summary.width = 216;
  summary.width_range = "168 to 216";
  summary.hidden_size = 256;
  summary.dense = {1000, 2000, 10.0};
  summary.compressed = {800, 1600, 11.0};
  summary.wall_time_s = 61.0;
  summary.fingerprints = {{"evaluation_tokens", tokens}};
  return {path, summary};
}

TEST(Comparison, HasARowForEachModelThatSaysWhereItIs) {
  ComparedModel first = model_of("out/a", "1");
  first.summary.compressed.kl = 3.2e-5;
  first.summary.compressed.agreement = 0.9123;
  ComparedModel second = model_of("out/b", "1");
  second.summary.stock = true;
  EXPECT_EQ(
      comparison_table({first, second}),
      "name  method    target               format              width     bytes  of dense  "
      "perplexity   change       KL  agreement       took  output\n"
      "job   slicegpt  size 0.8, allocated  custom  168 to 216 of 256  1.56 KiB    80.0 %      "
      "11.000  +10.0 %  3.2e-05     91.2 %  1 min 1 s  out/a\n"
      "job   slicegpt  size 0.8, allocated  stock   168 to 216 of 256  1.56 KiB    80.0 %      "
      "11.000  +10.0 %                      1 min 1 s  out/b\n");
}

TEST(Comparison, WarnsOfPerplexitiesOverOtherTokens) {
  const std::vector<ComparedModel> models = {model_of("out/a", "1"), model_of("out/b", "2")};
  EXPECT_THAT(comparison_table(models),
              HasSubstr("\nnot all perplexities are over the same tokens"));
  EXPECT_THAT(comparison_page(models).warnings,
              ElementsAre(HasSubstr("not all perplexities are over the same tokens")));
}

}  // namespace
}  // namespace dotresize
