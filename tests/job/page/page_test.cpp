#include "job/page/page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "job/plan/method.h"

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

TEST(PageNumbers, AreWrittenAsNumbersJsonHasThem) {
  // test_page.py holds the script to the same table.
  const std::map<std::string, std::function<std::string(const json&)>> functions = {
      {"percent", [](const json& given) { return format_percent(given.at(0)); }},
      {"perplexityText", [](const json& given) { return format_perplexity(given.at(0)); }},
      {"nats", [](const json& given) { return format_nats(given.at(0)); }},
      {"change", [](const json& given) { return format_change(given.at(0), given.at(1)); }},
      {"separated", [](const json& given) { return with_separators(given.at(0)); }},
      {"bytesText", [](const json& given) { return human_bytes(given.at(0)); }},
      {"shortNumber",
       [](const json& given) { return fmt::format("{:.4g}", double{given.at(0)}); }}};
  std::ifstream file(DOTRESIZE_SOURCE_DIR "/tests/job/page/numbers.json");
  for (const json& row : json::parse(file)) {
    EXPECT_EQ(functions.at(row.at(0))(row.at(1)), row.at(2)) << row.dump();
  }
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
  json named = example_results();
  named["variants"] = {{"one", named["variants"][0]}};
  EXPECT_EQ(refused(named), "/out/results.json: variants: must be a list");
  for (const char* key : {"values", "state", "width", "bytes_fraction", "pareto", "kl"}) {
    json document = example_results();
    document["variants"][0][key] = json::array();
    EXPECT_THAT(refused(document), StartsWith("/out/results.json: ")) << key;
  }
  json document = example_results();
  document["axes"] = json::array();
  EXPECT_EQ(refused(document), "/out/results.json: axes: must not be empty");
}

json example_report() {
  return {{"schema_version", 1},
          {"method", {{"name", "dotresize"}, {"width", 200}}},
          {"dense", {{"parameters", 1000}, {"bytes", 2000}}},
          {"compressed", {{"parameters", 800}, {"bytes", 1600}}},
          {"fingerprints", json::object()},
          {"wall_time_s", 12.0}};
}

TEST(ReportPage, ListsThatAreNoneAreRefusedByName) {
  const auto refused = [](const json& document) {
    try {
      report_page(parse_report(document.dump(), "report.json"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("was accepted");
  };
  EXPECT_EQ(refused(example_report()), "was accepted");
  for (const std::string key : {"junctions", "shortcuts", "mlps", "attentions", "ranks"}) {
    json document = example_report();
    for (const json& none : {json::object(), json(3), json("text"), json()}) {
      document[key] = none;
      EXPECT_EQ(refused(document), "report.json: " + key + ": must be a list");
    }
  }
  json document = example_report();
  document["heal"] = {{"update_share", 1.0}, {"held_out_kl", {0.5}}, {"layers", json::object()}};
  EXPECT_EQ(refused(document), "report.json: layers: must be a list");
  for (const json& none : {json::object(), json(3), json("text"), json(), json::array()}) {
    document = example_report();
    document["junctions"] = {{{"name", "embed"},
                              {"width", 200},
                              {"mapped", true},
                              {"effective_rank", 1},
                              {"retained_energy", 1.0},
                              {"spectrum", {{"ranks", none}, {"energy", {1.0}}}}}};
    EXPECT_EQ(refused(document),
              "report.json: junction 'embed': spectrum: ranks and energy must be lists of the same "
              "length");
  }
}

TEST(ReportPage, HasOfAnEntryOnlyWhatIsKnownOfIt) {
  json document = example_report();
  const json unmapped = {{"name", "embed"}, {"width", 256}, {"mapped", false}};
  document["junctions"] = {unmapped};
  document["junctions"][0].update({{"spectrum", 3}, {"transport", "none"}, {"new", {1}}});
  const Page page = report_page(parse_report(document.dump(), "report.json"));
  EXPECT_EQ(json::parse(page.data)["report"]["junctions"], json::array({unmapped}));
}

TEST(ReportPage, TellsWhetherAMethodWorksOnPrincipalComponents) {
  for (const Method& method : kMethods) {
    json document = example_report();
    document["method"]["name"] = method.name;
    const Page page = report_page(parse_report(document.dump(), "report.json"));
    EXPECT_EQ(json::parse(page.data)["principal_components"], method.pca());
  }
  json document = example_report();
  document["method"]["name"] = "one of a later version";
  const Page page = report_page(parse_report(document.dump(), "report.json"));
  EXPECT_EQ(json::parse(page.data)["principal_components"], false);
}

}  // namespace
}  // namespace dotresize
