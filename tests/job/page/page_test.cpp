#include "job/page/page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&{{TITLE}}\xe2\x80\xae";

json variant_of(const std::string& size, int64_t bytes, double perplexity, bool pareto) {
  return {{"values", {{"method.lambda", nullptr}, {"method.size", size}}},
          {"state", "done"},
          {"width", 200},
          {"bytes", bytes},
          {"bytes_fraction", static_cast<double>(bytes) / 1000},
          {"perplexity", perplexity},
          {"pareto", pareto},
          {"best", pareto}};
}

json example_results() {
  return {{"name", "sizes"},
          {"directory", "/out/sweep"},
          {"combinations", 8},
          {"axes", {"method.lambda", "method.size"}},
          {"dense", {{"bytes", 1000}, {"perplexity", 50.0}}},
          {"variants",
           {variant_of("0.9", 900, 52.0, true),
            variant_of("0.85", 850, 70.0, false),
            variant_of("0.8", 800, 60.0, true),
            {{"values", {{"method.lambda", "1"}, {"method.size", "0.01"}}},
             {"state", "refused"},
             {"reason", "method.size: too small"}}}}};
}

TEST(PageJson, IsSafeInAScriptAndHasNoNulls) {
  const json shown = {{"text", kHostile},
                      {"lines", "one\n\ttwo\x1b[31m\xff"},
                      {"<key>", {1, nullptr, true, 0.1, {{"absent", nullptr}}}},
                      {"absent", nullptr}};
  const std::string text = page_json(shown);
  for (const char* unsafe : {"<", ">", "&", "\xe2"}) EXPECT_THAT(text, Not(HasSubstr(unsafe)));
  const json expected = {{"text", "</script><img src=x onerror=alert(1)>\"'&{{TITLE}}?"},
                         {"lines", "one\n\ttwo?[31m?"},
                         {"<key>", {1, nullptr, true, 0.1, json::object()}}};
  EXPECT_EQ(json::parse(text), expected);
}

TEST(Page, ForeignTextIsNeverMarkup) {
  const Page page = failure_page({.name = kHostile,
                                  .state = "failed",
                                  .error = kHostile,
                                  .facts = {{kHostile, kHostile}},
                                  .spec = kHostile,
                                  .log_tail = kHostile});
  const std::string html = page_html(page);
  EXPECT_THAT(html, StartsWith("<!doctype html>\n<html lang=\"en\">"));
  EXPECT_THAT(html, HasSubstr("<h1>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;"
                              "&amp;{{TITLE}}?</h1>"));
  EXPECT_THAT(html, Not(HasSubstr("<img src=x")));
  EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));  // right-to-left override
}

TEST(FailurePage, HasTheErrorAndTheFactsForReadersWithoutScript) {
  const Page page = failure_page({.name = "lost",
                                  .state = "failed",
                                  .error = "RANK_KILLED on rank 1: signal 9",
                                  .facts = {{"job", "j-1"}},
                                  .spec = "{}",
                                  .log_tail = "one\ntwo\n"});
  EXPECT_EQ(page.summary, "The job has failed and left no model.");
  const std::string html = page_html(page);
  EXPECT_THAT(html, HasSubstr("<h2 id=\"error\">Error</h2><p>RANK_KILLED on rank 1: signal 9</p>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">job</th><td>j-1</td></tr>"));
}

TEST(SweepPage, HasTheParetoFrontForReadersWithoutScript) {
  const Page page = sweep_page(example_results().dump(), "results.json");
  EXPECT_EQ(page.summary,
            "8 combinations of settings, 3 done, 1 refused. Least perplexity: 52.000 at 90.0 % of "
            "the dense model's bytes, of the dense model 50.000.");
  EXPECT_THAT(page.key_figures,
              ElementsAre(ElementsAre("method.lambda", "method.size", "width", "net", "perplexity",
                                      "change"),
                          ElementsAre("–", "0.8", "200", "80.0 %", "60.000", "+20.0 %"),
                          ElementsAre("–", "0.9", "200", "90.0 %", "52.000", "+4.0 %")));
}

TEST(SweepPage, MalformedResultsAreRefusedByName) {
  const auto refused = [](const json& document) {
    try {
      sweep_page(document.dump(), "/out/results.json");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("was accepted");
  };
  EXPECT_THAT(refused(json::object()), StartsWith("/out/results.json: "));
  for (const char* key : {"axes", "variants", "name", "directory", "combinations", "dense"}) {
    json document = example_results();
    document[key] = json::array({json::array()});
    EXPECT_THAT(refused(document), StartsWith("/out/results.json: ")) << key;
  }
  for (const char* key : {"values", "state", "width", "bytes_fraction", "pareto", "kl"}) {
    json document = example_results();
    document["variants"][0][key] = json::array();
    EXPECT_THAT(refused(document), StartsWith("/out/results.json: ")) << key;
  }
  json document = example_results();
  document["axes"] = json::array();
  EXPECT_EQ(refused(document), "/out/results.json: axes: must not be empty");
}

}  // namespace
}  // namespace dotresize
