#include "job/page/report_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/text/encodings.h"
#include "job/page/figures/plan_gallery.h"
#include "job/page/figures/plan_image.h"
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

TEST(ReportPage, HasAFigureForAllThatTheReportHas) {
  const Page page = page_of(example_report());
  EXPECT_THAT(
      ids_of(page),
      ElementsAre("effective-rank", "retained-energy", "spectrum", "shortcut-rank", "mlp-width",
                  "mlp-predicted-rise", "healed-layers", "healing", "sinkhorn-iterations",
                  "sinkhorn-violation", "transport-targets", "transport-stays", "time", "memory"));
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

TEST(ReportPage, ShowsValueHeadsThatWereCut) {
  Report report = example_report();
  report.attentions = {{"layers.0.attention", 20, 32, 0.001}, {"layers.1.attention", 32, 32, 0.0}};
  const Page page = page_of(report);
  EXPECT_EQ(figure_of(page, "value-head-dim").csv,
            "sublayer,left,of the source\nlayers.0.attention,20,32\nlayers.1.attention,32,32\n");
}

TEST(ReportPage, BeginsWithThePredictedDamageOfAllPartsBesideWhatWasMeasured) {
  Report report = example_report();
  EXPECT_THAT(ids_of(page_of(report)), Not(Contains("predicted-damage")));
  report.job.maps.metric = Metric::kFisher;
  report.junctions[0].predicted_loss_increase = 0.5;
  report.attentions = {{"layers.0.attention", 20, 32, 0.0625}, {"layers.1.attention", 32, 32, 0.0}};
  report.shortcuts[0].predicted_loss_increase = 0.25;
  report.shortcuts[1].predicted_loss_increase = 0.125;
  report.compressed.kl = 1.5;
  const Page page = page_of(report);
  EXPECT_EQ(ids_of(page).front(), "predicted-damage");
  EXPECT_THAT(ids_of(page), Not(Contains("mlp-predicted-rise")));
  const Figure figure = figure_of(page, "predicted-damage");
  EXPECT_EQ(figure.csv,
            "layer,maps,MLPs,value heads,shortcuts\nembed,0.5,,,\nlayers.0,,0.001,0.0625,0.375\n"
            "layers.1,,,0,\n");
  EXPECT_EQ(figure.text, "The bars sum to 0.9385 nats a token; the measured KL is 1.5000.");
}

TEST(ReportPage, SettingsStandBelowTheFiguresAndMeasuresAreExplained) {
  Report report = example_report();
  report.compressed.kl = 0.1;
  const Page page = page_of(report);
  ASSERT_EQ(page.tables.size(), 2u);
  EXPECT_EQ(page.tables[1].caption, "Terms");
  EXPECT_EQ(page.tables[1].rows[0][0], "KL");
  EXPECT_EQ(page.details[0].caption, "What was done");
}

TEST(ReportPage, PhasesThatTakeLittleTimeAreShownAsOne) {
  Report report = example_report();
  for (int i = 0; i < 20; ++i) report.ranks[0].seconds["p" + std::to_string(i)] = 0.01;
  const Figure time = figure_of(page_of(report), "time");
  ASSERT_EQ(time.series.size(), 8u);
  EXPECT_EQ(time.series.back().name, "the other phases");
  EXPECT_NEAR(time.series.back().points[0].y, 0.15, 1e-12);
  EXPECT_THAT(time.csv, HasSubstr(",p19,"));
}

TEST(ReportPage, LeavesOutWhatTheReportDoesNotHave) {
  Report report = example_report();
  report.shortcuts.clear();
  report.mlps.clear();
  report.healing.reset();
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

TEST(ReportPage, ShowsThreePlansAndHasAll) {
  Report report = example_report();
  for (int i = 0; i < 4; ++i) {
    report.junctions.push_back(example_junction("layers." + std::to_string(i) + ".mlp", 200, 184));
  }
  report.junctions[2].transport.reset();  // shares the map of the junction before
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
  EXPECT_EQ(count_of(html, "data-plan=\""), 3u);
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

TEST(ReportPage, AStoredReportIsShown) {
  const std::string path =
      DOTRESIZE_SOURCE_DIR "/tests/data/output/dotresize/report.json";
  const Page page = report_page(parse_report(file_text(path), path));
  EXPECT_THAT(ids_of(page), Contains("sinkhorn-iterations"));
  EXPECT_THAT(ids_of(page), Not(Contains("spectrum")));
}

TEST(ReportPage, MalformedReportsAreRefusedByName) {
  json document = json::parse(report_to_json(example_report()));
  document["junctions"][0]["effective_rank"] = "many";
  try {
    parse_report(document.dump(), "/out/report.json");
    ADD_FAILURE() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), StartsWith("/out/report.json: "));
  }
  document = json::parse(report_to_json(example_report()));
  document["junctions"][0]["spectrum"]["energy"] = json::array();
  EXPECT_THROW(parse_report(document.dump(), "report.json"), InputError);
}

}  // namespace
}  // namespace dotresize
