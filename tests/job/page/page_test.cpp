#include "job/page/page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/encodings.h"
#include "job/page/failure_page.h"
#include "job/page/page_data.h"
#include "job/page/page_html.h"
#include "job/page/template/page_files.h"
#include "tests/job/page/page_examples.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&{{TITLE}}\xe2\x80\xae";
constexpr size_t kMaxPageBytes = 5'000'000;

TEST(Page, HasItsFilesByteForByte) {
  const std::string dir = DOTRESIZE_SOURCE_DIR "/job/page/template/";
  EXPECT_EQ(page_template(), file_text(dir + "page.html"));
  EXPECT_EQ(page_css(), file_text(dir + "page.css"));
  EXPECT_EQ(page_js(), file_text(dir + "page.js"));
  EXPECT_THAT(std::string(chart_js()), HasSubstr("Chart.js v"));
}

TEST(Page, AllowsItsOwnContentAndNothingElse) {
  const std::string html = page_html(page_of(example_report()));
  EXPECT_THAT(html, StartsWith("<!doctype html>\n<html lang=\"en\">"));
  const std::string policy = between(html, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_EQ(policy, "default-src 'none'; script-src 'sha256-" + content_hash(chart_js()) +
                        "' 'sha256-" + content_hash(page_js()) + "'; style-src 'sha256-" +
                        content_hash(page_css()) +
                        "'; img-src data:; base-uri 'none'; form-action 'none'");
  for (const std::string_view content : {chart_js(), page_js()}) {
    EXPECT_EQ(count_of(html, "<script>" + std::string(content) + "</script>"), 1u);
  }
  EXPECT_EQ(count_of(html, "<style>" + std::string(page_css()) + "</style>"), 1u);
}

TEST(Page, LoadsNothing) {
  for (const std::string& html :
       {page_html(page_of(example_report())), page_html(page_of(example_sweep()))}) {
    const std::string own = own_part(html);
    EXPECT_EQ(count_of(own, "src="), count_of(own, "src=\"data:image/png;base64,"));
    EXPECT_THAT(own, Not(HasSubstr("http:")));
    EXPECT_THAT(own, Not(HasSubstr("https:")));
    EXPECT_THAT(own, Not(HasSubstr("@import")));
    EXPECT_EQ(count_of(own, "href=\""), count_of(own, "href=\"data:"));
  }
}

TEST(Page, ForeignTextIsNeverMarkup) {
  Report report = example_report(kHostile);
  report.junctions[0].name = report.shortcuts[0].name = report.mlps[0].name = kHostile;
  report.ranks[0].host = kHostile;
  report.ranks[0].seconds[kHostile] = 1.0;
  report.fingerprints[kHostile] = kHostile;
  report.warnings = {kHostile};
  json sweep = example_sweep();
  sweep["name"] = sweep["directory"] = sweep["variants"][4]["reason"] = kHostile;
  sweep["variants"][0]["values"]["method.name"] = kHostile;
  sweep["variants"][2]["values"]["method.size"] = kHostile;
  const EndedJob failed{.name = kHostile,
                        .state = "failed",
                        .error = kHostile,
                        .facts = {{kHostile, kHostile}},
                        .spec = kHostile,
                        .log_tail = std::string(kHostile) + "\xff\x1b[31m"};
  for (const Page& page : {page_of(report), page_of(sweep), failure_page(failed)}) {
    const std::string html = own_part(page_html(page));
    EXPECT_THAT(html, HasSubstr("&lt;/script&gt;&lt;img src=x"));
    EXPECT_THAT(html, Not(HasSubstr("<img src=x")));
    const size_t scripts = page.plans ? 4 : 3;
    EXPECT_EQ(count_of(html, "<script"), scripts);
    EXPECT_EQ(count_of(html, "</script"), scripts);
    EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));  // right-to-left override
    EXPECT_THAT(html, Not(HasSubstr("\x1b")));
    const std::string data = between(html, "id=\"figures\">", "</script>");
    EXPECT_EQ(json::parse(data).size(), page.figures.size());
    if (!page.plans) continue;
    const json plans = json::parse(between(html, "id=\"plans\">", "</script>"))["plans"];
    EXPECT_EQ(plans.size(), page.plans->plans.size());
  }
}

TEST(Page, EachFigureSaysTheSameInWordsAndAsData) {
  for (const Page& page : {page_of(example_report()), page_of(example_sweep())}) {
    const std::string html = own_part(page_html(page));
    EXPECT_EQ(count_of(html, "<canvas role=\"img\" aria-label=\""), page.figures.size());
    for (const Figure& figure : page.figures) {
      EXPECT_THAT(html, HasSubstr("<canvas role=\"img\" aria-label=\"" + figure.title + ". "));
      EXPECT_THAT(html, HasSubstr("download=\"" + figure.id +
                                  ".csv\" href=\"data:text/csv;charset=utf-8;base64," +
                                  base64(figure.csv) + "\""));
      EXPECT_THAT(figure.text, testing::EndsWith("."));
      EXPECT_GT(figure.text.size(), 5u);
      EXPECT_NE(figure.x.title, "");
      EXPECT_NE(figure.y.title, "");
      EXPECT_GT(std::ranges::count(figure.csv, '\n'), 1);
    }
  }
}

TEST(Page, SaysWhatWasDoneAndWhatCameOut) {
  const std::string html = own_part(page_html(page_of(example_report("a name"))));
  EXPECT_THAT(html, HasSubstr("<h1>a name</h1>"));
  EXPECT_THAT(html,
              HasSubstr("pca_dotresize has made the model 200 of 256 channels wide: 80.0 % of its "
                        "bytes, perplexity 29.050 in place of 26.030, in 12 s."));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">KL (nats a token)</th><td></td><td>0.1250</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">λ</th><td>0.1</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">config.json</th><td>ab12</td>"));
}

TEST(Page, OfTheLargestSweepIsSmall) {
  json document = example_sweep();
  for (int i = 0; document["variants"].size() < 4096; ++i) {
    document["variants"].push_back(example_variant("pca_dotresize", std::to_string(0.001 * i),
                                                   "0.9", 0.5 + 1e-4 * i, 50.0 + 0.123456789 * i,
                                                   i % 16 == 0));
  }
  EXPECT_LT(page_html(page_of(document)).size(), kMaxPageBytes);
}

TEST(Page, OfADeepModelIsSmall) {
  Report report = example_report();
  JunctionReport deep = example_junction("", 8192, 7000);
  for (int rank = 2; rank < 30; ++rank) deep.spectrum.emplace_back(256 + rank, 0.123456789);
  TransportPicture& plan = *deep.transport;
  plan.rows = plan.columns = TransportPicture::kMaxRows;
  plan.levels.clear();
  while (plan.levels.size() < 64 * 64) {
    plan.levels.push_back(static_cast<uint8_t>(plan.levels.size() * 7919 % 251));
  }
  report.junctions.clear();
  for (int i = 0; i < 513; ++i) {  // 256 layers
    deep.name = "layers." + std::to_string(i) + ".attention";
    report.junctions.push_back(deep);
  }
  EXPECT_LT(page_html(page_of(report)).size(), kMaxPageBytes);
}

TEST(FailurePage, HasTheErrorAndTheEndOfTheLog) {
  const std::string html =
      own_part(page_html(failure_page({.name = "lost",
                                       .state = "failed",
                                       .error = "RANK_KILLED on rank 1: signal 9",
                                       .facts = {{"job", "j-1"}},
                                       .spec = "{}",
                                       .log_tail = "one\ntwo\n"})));
  EXPECT_THAT(html, HasSubstr("<h2 id=\"error\">Error</h2><p>RANK_KILLED on rank 1: signal 9</p>"));
  EXPECT_THAT(html, HasSubstr("<pre tabindex=\"0\">one\ntwo\n</pre>"));
  EXPECT_THAT(html, HasSubstr("The job has failed and left no model."));
}

}  // namespace
}  // namespace dotresize
