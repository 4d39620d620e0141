#include "job/page/sweep_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "job/page/page_html.h"
#include "tests/job/page/page_examples.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(SweepPage, ShowsTheFrontAndACurveForEachAxis) {
  const Page page = page_of(example_sweep());
  EXPECT_THAT(ids_of(page), ElementsAre("perplexity-size", "perplexity-method-lambda"));
  const Figure& sizes = figure_of(page, "perplexity-size");
  EXPECT_THAT(sizes.text, StartsWith("On the front, by size: 60.000 at 80.0 % (pca_dotresize, "
                                     "lambda 0.01, size 0.8); 52.000 at 90.0 %"));
  ASSERT_EQ(sizes.series.size(), 4u);  // two methods, the front, the dense model
  EXPECT_EQ(sizes.series[2].name, "Pareto front");
  EXPECT_EQ(sizes.series[2].points.front().x, 80.0);
  const Figure& lambda = figure_of(page, "perplexity-method-lambda");
  EXPECT_TRUE(lambda.x.log);
  ASSERT_EQ(lambda.series.size(), 1u);  // size 0.8 has only one value
  EXPECT_EQ(lambda.csv,
            "series,method.lambda,perplexity\n\"pca_dotresize, size 0.9\",0.01,54\n"
            "\"pca_dotresize, size 0.9\",1,53\n");
  EXPECT_EQ(page.details.front().rows.front().front(), "pca_dotresize");  // the smallest
  EXPECT_EQ(page.details.back().rows.front().back(), "method.size: too small");
}

TEST(SweepPage, TellsApartWhateverHasANameNotTheMethodAlone) {
  json document = example_sweep();
  document["axes"].push_back("method.metric");
  size_t done = 0;
  for (json& variant : document["variants"]) {
    variant["values"]["method.metric"] = done % 2 == 0 ? "activation" : "fisher";
    done += variant["state"] == "done" ? 1 : 0;
  }
  const Page page = page_of(document);
  std::vector<std::string> names;
  size_t points = 0;
  for (const Series& series : figure_of(page, "perplexity-size").series) {
    names.push_back(series.name);
    if (series.name.find("metric") != std::string::npos) points += series.points.size();
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"pca_dotresize, metric activation", "pca_dotresize, metric fisher"}));
  EXPECT_EQ(points, done);
}

TEST(SweepPage, HasTheDivergenceOfJobsThatMeasuredIt) {
  json document = example_sweep();
  EXPECT_THAT(page_of(document).details.front().heading, Not(Contains("agreement")));
  document["variants"][0]["kl"] = 0.0826;
  document["variants"][0]["agreement"] = 0.822;
  const PageTable table = page_of(document).details.front();
  EXPECT_THAT(table.heading, Contains("KL (nats a token)"));
  EXPECT_THAT(table.rows[1], testing::IsSupersetOf({"0.0826", "82.2 %"}));
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.heading.size());
}

TEST(SweepPage, WithoutAJobThatIsDoneHasNoFigure) {
  json document = example_sweep();
  document["variants"] = {document["variants"][4]};
  document.erase("dense");
  const Page page = page_of(document);
  EXPECT_THAT(page.figures, testing::IsEmpty());
  EXPECT_THAT(page_html(page), HasSubstr("8 combinations of settings, 1 refused."));
}

TEST(SweepPage, MalformedResultsAreRefusedByName) {
  const auto refused = [](const json& document) {
    try {
      parse_results(document.dump(), "/out/results.json");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("was accepted");
  };
  EXPECT_THAT(refused(json::object()), StartsWith("/out/results.json: "));
  for (const char* key : {"axes", "variants", "name"}) {
    json document = example_sweep();
    document[key] = 3;
    EXPECT_THAT(refused(document), StartsWith("/out/results.json: ")) << key;
  }
  json document = example_sweep();
  document["axes"] = json::array();
  EXPECT_THAT(refused(document), HasSubstr("axes: must not be empty"));
}

}  // namespace
}  // namespace dotresize
