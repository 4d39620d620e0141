#include "job/page/page.h"

#include <gmock/gmock.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "job/page/failure_page.h"
#include "job/page/page_data.h"
#include "job/page/page_files.h"
#include "job/page/plan_gallery.h"
#include "job/page/plan_image.h"
#include "job/page/report_page.h"
#include "job/page/sweep_page.h"
#include "tests/job/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)>\"'&{{TITLE}}\xe2\x80\xae";
constexpr size_t kMaxPageBytes = 5'000'000;

JunctionReport junction(const std::string& name, int64_t width, int64_t rank) {
  JunctionReport made;
  made.name = name;
  made.width = width;
  made.effective_rank = rank;
  made.retained_energy = 0.97;
  made.spectrum = {{1, 0.5}, {16, 0.875}, {256, 1.0}};
  made.sinkhorn_iterations = 42;
  made.sinkhorn_violation = 1e-9;
  made.sinkhorn_converged = true;
  made.transport = TransportPicture{.block = 100,
                                    .rows = 3,
                                    .columns = 2,
                                    .largest = 0.25,
                                    .levels = {255, 223, 0, 255, 223, 191},
                                    .stays = 0.75,
                                    .kept_targets = 1.5,
                                    .merged_targets = 1.25};
  return made;
}

Report example(const std::string& name = "small") {
  Report report;
  report.job = small_job(small_llama(), 2);
  report.job.name = name;
  report.widths = report.job.widths;
  report.junctions = {junction("embed", 200, 227), junction("layers.0.attention", 200, 184)};
  report.shortcuts = {{"layers.0.attention", 8, 56, 1600}, {"layers.0.mlp", {}, 56, 40000}};
  report.mlps = {{"layers.0.mlp", 640, 768, 0.001, 0}};
  report.dense = {1000, 2000, 26.03};
  report.compressed = {800, 1600, 29.05, 0.125, 0.75};
  report.ranks = {{0, "host", 0, 6, {{"forward", 1.5}, {"sinkhorn", 0.5}}, 1 << 30},
                  {1, "host", 6, 12, {{"forward", 2.5}}, 1 << 30}};
  report.wall_time_s = 12.0;
  report.fingerprints = {{"config.json", "ab12"}};
  return report;
}

Page page_of(const Report& report) {
  return report_page(parse_report(report_to_json(report), "report.json"));
}

json variant(const std::string& method, const json& lambda, const std::string& size,
             double fraction, double perplexity, bool pareto) {
  return {{"values", {{"method.name", method}, {"method.lambda", lambda}, {"method.size", size}}},
          {"state", "done"},
          {"id", method},
          {"width", 200},
          {"bytes", static_cast<int64_t>(fraction * 1000)},
          {"bytes_fraction", fraction},
          {"perplexity", perplexity},
          {"wall_time_s", 1.5},
          {"pareto", pareto},
          {"best", pareto}};
}

json sweep_document() {
  json refused = {
      {"values",
       {{"method.name", "slicegpt"}, {"method.lambda", nullptr}, {"method.size", "0.01"}}},
      {"state", "refused"},
      {"reason", "method.size: too small"}};
  return {{"name", "sizes"},
          {"directory", "/out/sweep"},
          {"combinations", 8},
          {"axes", {"method.name", "method.lambda", "method.size"}},
          {"dense", {{"bytes", 1000}, {"perplexity", 50.0}}},
          {"variants",
           {variant("slicegpt", nullptr, "0.9", 0.9, 52.0, true),
            variant("pca_dotresize", "1", "0.9", 0.9, 53.0, false),
            variant("pca_dotresize", "0.01", "0.9", 0.9, 54.0, false),
            variant("pca_dotresize", "0.01", "0.8", 0.8, 60.0, true), refused}}};
}

Page page_of(const json& sweep) { return sweep_page(parse_results(sweep.dump(), "results.json")); }

std::vector<std::string> ids_of(const Page& page) {
  std::vector<std::string> ids;
  for (const Figure& figure : page.figures) ids.push_back(figure.id);
  return ids;
}

const Figure& figure_of(const Page& page, const std::string& id) {
  const auto found = std::ranges::find(page.figures, id, &Figure::id);
  if (found == page.figures.end()) throw std::out_of_range(id);
  return *found;
}

/// What stands between the first `begin` and the next `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) throw std::out_of_range(begin);
  return text.substr(from + begin.size(),
                     text.find(end, from + begin.size()) - from - begin.size());
}

/// The page without Chart.js, which is not ours.
std::string own_part(std::string html) {
  html.erase(html.find(chart_js()), chart_js().size());
  return html;
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Page, HasItsFilesByteForByte) {
  const std::string dir = DOTRESIZE_SOURCE_DIR "/job/page/";
  EXPECT_EQ(page_template(), file_text(dir + "page.html"));
  EXPECT_EQ(page_css(), file_text(dir + "page.css"));
  EXPECT_EQ(page_js(), file_text(dir + "page.js"));
  EXPECT_THAT(std::string(chart_js()), HasSubstr("Chart.js v"));
}

TEST(Page, AllowsItsOwnContentAndNothingElse) {
  const std::string html = page_html(page_of(example()));
  EXPECT_THAT(html, StartsWith("<!doctype html>\n<html lang=\"en\">"));
  const std::string policy = between(html, "Content-Security-Policy\" content=\"", "\"");
  EXPECT_EQ(policy, "default-src 'none'; script-src 'sha256-" + content_hash(chart_js()) +
                        "' 'sha256-" + content_hash(page_js()) + "'; style-src 'sha256-" +
                        content_hash(page_css()) +
                        "'; img-src data:; base-uri 'none'; form-action 'none'");
  for (const std::string_view content : {chart_js(), page_js()}) {
    EXPECT_EQ(count(html, "<script>" + std::string(content) + "</script>"), 1u);
  }
  EXPECT_EQ(count(html, "<style>" + std::string(page_css()) + "</style>"), 1u);
}

TEST(Page, LoadsNothing) {
  for (const std::string& html :
       {page_html(page_of(example())), page_html(page_of(sweep_document()))}) {
    const std::string own = own_part(html);
    EXPECT_EQ(count(own, "src="), count(own, "src=\"data:image/png;base64,"));
    EXPECT_THAT(own, Not(HasSubstr("http:")));
    EXPECT_THAT(own, Not(HasSubstr("https:")));
    EXPECT_THAT(own, Not(HasSubstr("@import")));
    EXPECT_EQ(count(own, "href=\""), count(own, "href=\"data:"));
  }
}

TEST(Page, ForeignTextIsNeverMarkup) {
  Report report = example(kHostile);
  report.junctions[0].name = report.shortcuts[0].name = report.mlps[0].name = kHostile;
  report.ranks[0].host = kHostile;
  report.ranks[0].seconds[kHostile] = 1.0;
  report.fingerprints[kHostile] = kHostile;
  report.warnings = {kHostile};
  json sweep = sweep_document();
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
    EXPECT_EQ(count(html, "<script"), scripts);
    EXPECT_EQ(count(html, "</script"), scripts);
    EXPECT_THAT(html, Not(HasSubstr("\xe2\x80\xae")));  // turns the direction of what follows
    EXPECT_THAT(html, Not(HasSubstr("\x1b")));
    const std::string data = between(html, "id=\"figures\">", "</script>");
    EXPECT_EQ(json::parse(data).size(), page.figures.size());
    if (!page.plans) continue;
    const json plans = json::parse(between(html, "id=\"plans\">", "</script>"))["plans"];
    EXPECT_EQ(plans.size(), page.plans->plans.size());
  }
}

TEST(Page, EachFigureSaysTheSameInWordsAndAsData) {
  for (const Page& page : {page_of(example()), page_of(sweep_document())}) {
    const std::string html = own_part(page_html(page));
    EXPECT_EQ(count(html, "<canvas role=\"img\" aria-label=\""), page.figures.size());
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
  const std::string html = own_part(page_html(page_of(example("a name"))));
  EXPECT_THAT(html, HasSubstr("<h1>a name</h1>"));
  EXPECT_THAT(html,
              HasSubstr("pca_dotresize has made the model 200 of 256 channels wide: 80.0 % of its "
                        "bytes, perplexity 29.050 in place of 26.030, in 12 s."));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">KL (nats a token)</th><td></td><td>0.1250</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">λ</th><td>0.1</td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">config.json</th><td>ab12</td>"));
}

TEST(ReportPage, HasAFigureForAllThatTheReportHas) {
  const Page page = page_of(example());
  EXPECT_THAT(ids_of(page), ElementsAre("effective-rank", "retained-energy", "spectrum",
                                        "shortcut-rank", "mlp-width", "mlp-predicted-rise",
                                        "sinkhorn-iterations", "sinkhorn-violation",
                                        "transport-targets", "transport-stays", "time", "memory"));
  EXPECT_EQ(figure_of(page, "transport-targets").csv,
            "junction,kept channels,merged channels\nembed,1.5,1.25\n"
            "layers.0.attention,1.5,1.25\n");
  EXPECT_EQ(figure_of(page, "transport-stays").text, "stays (%): 75.");
  EXPECT_EQ(figure_of(page, "effective-rank").csv,
            "junction,effective rank (τ = 0.99),width,hidden_size of the source\n"
            "embed,227,200,256\nlayers.0.attention,184,200,256\n");
  EXPECT_EQ(
      figure_of(page, "effective-rank").text,
      "effective rank (τ = 0.99): 184 (layers.0.attention) to 227 (embed), mean 205.5; width: "
      "200; hidden_size of the source: 256.");
  EXPECT_EQ(figure_of(page, "spectrum").csv,
            "rank,embed,layers.0.attention\n1,0.500000000,0.500000000\n"
            "16,0.875000000,0.875000000\n256,1.000000000,1.000000000\n");
  EXPECT_EQ(figure_of(page, "shortcut-rank").csv,
            "sublayer,rank,exact rank\nlayers.0.attention,8,56\nlayers.0.mlp,,56\n");
  EXPECT_EQ(figure_of(page, "time").csv, "rank,forward,sinkhorn\n0,1.5,0.5\n1,2.5,\n");
  EXPECT_EQ(figure_of(page, "time").text,
            "12 s of wall time; mean over the ranks: forward 2 s, sinkhorn 0.25 s.");
  EXPECT_EQ(figure_of(page, "memory").csv, "rank,host\n0,1\n1,1\n");
}

TEST(ReportPage, PhasesThatTakeLittleTimeAreShownAsOne) {
  Report report = example();
  for (int i = 0; i < 20; ++i) report.ranks[0].seconds["p" + std::to_string(i)] = 0.01;
  const Figure time = figure_of(page_of(report), "time");
  ASSERT_EQ(time.series.size(), 8u);
  EXPECT_EQ(time.series.back().name, "the other phases");
  EXPECT_NEAR(time.series.back().points[0].y, 0.15, 1e-12);
  EXPECT_THAT(time.csv, HasSubstr(",p19,"));
}

TEST(ReportPage, LeavesOutWhatTheReportDoesNotHave) {
  Report report = example();
  report.shortcuts.clear();
  report.mlps.clear();
  for (JunctionReport& each : report.junctions) {
    each.spectrum.clear();
    each.sinkhorn_iterations.reset();
    each.sinkhorn_violation.reset();
    each.transport.reset();
  }
  EXPECT_THAT(ids_of(page_of(report)),
              ElementsAre("effective-rank", "retained-energy", "time", "memory"));
  EXPECT_FALSE(page_of(report).plans);
  EXPECT_THAT(page_html(page_of(report)), Not(HasSubstr("transport-plans\"")));
}

/// Red, green, blue and opacity of each pixel, row after row.
std::vector<std::array<uint8_t, 4>> pixels_of(const std::string& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) return {};
  image.format = PNG_FORMAT_RGBA;
  std::vector<std::array<uint8_t, 4>> pixels(size_t{image.width} * image.height);
  png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr);
  return pixels;
}

TEST(PlanImage, HasAPixelForEachCell) {
  const TransportPicture picture = *junction("embed", 200, 227).transport;
  TransportPicture fainter = picture;
  fainter.largest = 0.025;
  const ColourScale scale({&picture, &fainter});
  EXPECT_EQ(scale.shift_of(picture), 0);
  EXPECT_EQ(scale.shift_of(fainter), 32);
  ASSERT_EQ(scale.ticks().size(), 5u);
  EXPECT_NEAR(scale.ticks().front(), 0.25e-3, 1e-15);
  EXPECT_NEAR(scale.ticks()[2], 0.25 * std::pow(10.0, -1.5), 1e-15);
  EXPECT_EQ(scale.ticks().back(), 0.25);
  const auto pixels = pixels_of(png_of(picture, scale));
  ASSERT_EQ(pixels.size(), 2u * 4u);
  EXPECT_EQ(image_rows(picture), 4);
  EXPECT_EQ(pixels[0], pixels[3]);
  EXPECT_EQ(pixels[1], pixels[6]);
  EXPECT_NE(pixels[0], pixels[1]);
  EXPECT_EQ(pixels[0][3], 255);
  for (const size_t without : {2, 4, 5}) EXPECT_EQ(pixels[without][3], 0);  // 0, and the gap
  // One mass has one colour.
  EXPECT_EQ(pixels_of(png_of(fainter, scale))[0], pixels[1]);
  EXPECT_EQ(pixels_of(png_of(fainter, scale))[1], pixels[7]);
}

TEST(PlanImage, OfAPlanWithoutMergedChannelsHasNoGap) {
  TransportPicture picture = *junction("embed", 200, 227).transport;
  picture.rows = 2;
  picture.levels.resize(4);
  EXPECT_EQ(pixels_of(png_of(picture, ColourScale({&picture}))).size(), 4u);
}

TEST(PlanImage, IsMadeOfWhateverAReportMayHave) {
  TransportPicture picture = *junction("embed", 200, 227).transport;
  for (const uint8_t level : {0, 1, 255}) {
    picture.levels.assign(6, level);
    for (const double largest : {2.0, 0.25, 5e-324}) {
      picture.largest = largest;
      EXPECT_EQ(pixels_of(png_of(picture, ColourScale({&picture}))).size(), 8u);
    }
  }
  EXPECT_EQ(scientific(2.54e-10), "2.5·10⁻¹⁰");
  EXPECT_EQ(scientific(9.99e-2), "1.0·10⁻¹");
  EXPECT_EQ(scientific(0.0), "0.0·10⁰");
}

TEST(ReportPage, ShowsThreePlansAndHasAll) {
  Report report = example();
  for (int i = 0; i < 4; ++i) {
    report.junctions.push_back(junction("layers." + std::to_string(i) + ".mlp", 200, 184));
  }
  report.junctions[2].transport.reset();  // shares the map of the one before
  const Page page = page_of(report);
  ASSERT_TRUE(page.plans);
  ASSERT_EQ(page.plans->plans.size(), 5u);
  EXPECT_THAT(page.plans->text, HasSubstr("Channels are principal components here"));
  EXPECT_EQ(page.plans->plans[1].name, "layers.0.attention to layers.0.mlp");
  EXPECT_EQ(
      page.plans->plans[0].text,
      "200 of 256 channels are kept: 3 rows and 2 columns of 100 channels each. 75.0 % of the "
      "mass of the kept channels stays on themselves. In the mean over the rows the largest "
      "cell has 93.9 % of a row's mass. The mass of a kept channel is spread over 1.5 channels "
      "(effective number), that of a merged one over 1.25.");
  const std::string html = own_part(page_html(page));
  EXPECT_EQ(count(html, "data-plan=\""), 3u);
  const ColourScale scale(pictures_of(*page.plans));
  for (const size_t index : {0, 2, 4}) {
    const Plan& plan = page.plans->plans[index];
    EXPECT_THAT(html, HasSubstr("data-plan=\"" + std::to_string(index) + "\""));
    EXPECT_THAT(html, HasSubstr("alt=\"Transport plan of " + plan.name + ". "));
    EXPECT_THAT(html, HasSubstr("src=\"data:image/png;base64," +
                                base64(png_of(plan.picture, scale)) + "\""));
    EXPECT_THAT(html, HasSubstr("download=\"transport-plan-" + plan.name +
                                ".csv\" href=\"data:text/csv;charset=utf-8;base64," +
                                base64(csv_of(plan.picture)) + "\""));
  }
  const json plans = json::parse(between(html, "id=\"plans\">", "</script>"))["plans"];
  ASSERT_EQ(plans.size(), 5u);
  EXPECT_EQ(plans[1]["levels"], base64(std::string("\xff\xdf\x00\xff\xdf\xbf", 6)));
  EXPECT_EQ(csv_of(page.plans->plans[0].picture),
            "first channel,0,100\nkept 0,2.500e-01,2.500e-02\nkept 100,0.000e+00,2.500e-01\n"
            "merged 0,2.500e-02,2.500e-03\n");
}

// tests/data/compat/README.md
TEST(ReportPage, OfAnEarlierCommitIsMade) {
  const std::string path = DOTRESIZE_SOURCE_DIR "/tests/data/compat/output/dotresize/report.json";
  const Page page = report_page(parse_report(file_text(path), path));
  EXPECT_THAT(ids_of(page), Contains("sinkhorn-iterations"));
  EXPECT_THAT(ids_of(page), Not(Contains("spectrum")));
}

TEST(ReportPage, MalformedReportsAreRefusedByName) {
  json document = json::parse(report_to_json(example()));
  document["junctions"][0]["effective_rank"] = "many";
  try {
    parse_report(document.dump(), "/out/report.json");
    ADD_FAILURE() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("/out/report.json: "));
  }
  document = json::parse(report_to_json(example()));
  document["junctions"][0]["spectrum"]["energy"] = json::array();
  EXPECT_THROW(parse_report(document.dump(), "report.json"), InputError);
}

TEST(SweepPage, ShowsTheFrontAndACurveForEachAxis) {
  const Page page = page_of(sweep_document());
  EXPECT_THAT(ids_of(page), ElementsAre("perplexity-size", "perplexity-method-lambda"));
  const Figure& sizes = figure_of(page, "perplexity-size");
  EXPECT_THAT(sizes.text, StartsWith("On the front, by size: 60.000 at 80.0 % (pca_dotresize, "
                                     "lambda 0.01, size 0.8); 52.000 at 90.0 %"));
  ASSERT_EQ(sizes.series.size(), 4u);  // two methods, the front, the dense model
  EXPECT_EQ(sizes.series[2].name, "Pareto front");
  EXPECT_EQ(sizes.series[2].points.front().x, 80.0);
  const Figure& lambda = figure_of(page, "perplexity-method-lambda");
  EXPECT_TRUE(lambda.x.log);
  ASSERT_EQ(lambda.series.size(), 1u);  // of size 0.8 there is one value alone
  EXPECT_EQ(lambda.csv,
            "series,method.lambda,perplexity\n\"pca_dotresize, size 0.9\",0.01,54\n"
            "\"pca_dotresize, size 0.9\",1,53\n");
  EXPECT_EQ(page.details.front().rows.front().front(), "pca_dotresize");  // the smallest
  EXPECT_EQ(page.details.back().rows.front().back(), "method.size: too small");
}

TEST(SweepPage, HasTheDivergenceOfJobsThatMeasuredIt) {
  json document = sweep_document();
  EXPECT_THAT(page_of(document).details.front().heading, Not(Contains("agreement")));
  document["variants"][0]["kl"] = 0.0826;
  document["variants"][0]["agreement"] = 0.822;
  const PageTable table = page_of(document).details.front();
  EXPECT_THAT(table.heading, Contains("KL (nats a token)"));
  EXPECT_THAT(table.rows[1], testing::IsSupersetOf({"0.0826", "82.2 %"}));
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.heading.size());
}

TEST(SweepPage, WithoutAJobThatIsDoneHasNoFigure) {
  json document = sweep_document();
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
    json document = sweep_document();
    document[key] = 3;
    EXPECT_THAT(refused(document), StartsWith("/out/results.json: ")) << key;
  }
  json document = sweep_document();
  document["axes"] = json::array();
  EXPECT_THAT(refused(document), HasSubstr("axes: must not be empty"));
}

TEST(Page, OfTheLargestSweepIsSmall) {
  json document = sweep_document();
  for (int i = 0; document["variants"].size() < 4096; ++i) {
    document["variants"].push_back(variant("pca_dotresize", std::to_string(0.001 * i), "0.9",
                                           0.5 + 1e-4 * i, 50.0 + 0.123456789 * i, i % 16 == 0));
  }
  EXPECT_LT(page_html(page_of(document)).size(), kMaxPageBytes);
}

TEST(Page, OfADeepModelIsSmall) {
  Report report = example();
  JunctionReport deep = junction("", 8192, 7000);
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
