#include "job/report/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "job/report/stored_report.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Report example() {
  Report report;
  report.tool_version = "1.2.3";
  report.job = small_job(small_llama(), 2);
  report.widths = report.job.widths;
  report.evaluation_seqlen = 256;
  report.junctions.resize(2);
  JunctionReport& mapped = report.junctions[0];
  mapped.name = "embed";
  mapped.width = 200;
  mapped.effective_rank = 17;
  mapped.retained_energy = 0.99;
  mapped.spectrum = {{1, 0.5}, {256, 1.0}};
  mapped.sinkhorn_iterations = 42;
  mapped.sinkhorn_violation = 1e-9;
  mapped.sinkhorn_converged = true;
  mapped.qr_condition = 3.5;
  mapped.transport = TransportPicture{.block = 100,
                                      .rows = 3,
                                      .columns = 2,
                                      .largest = 0.25,
                                      .levels = {255, 1, 2, 254, 128, 0},
                                      .stays = 0.75,
                                      .kept_targets = 1.5,
                                      .merged_targets = 20.25};
  JunctionReport& kept = report.junctions[1];
  kept.name = "layers.5.mlp";
  kept.width = 256;
  kept.mapped = false;
  report.dense = {1000, 2000, 26.03, {}, {}, {Dtype::kBFloat16}};
  report.compressed = {800, 1600, 29.05, 0.125, 0.75, {Dtype::kBFloat16}};
  report.ranks = {{0, "host", 0, 6, {{"calibrate", 1.5}}, 1 << 20},
                  {1, "host", 6, 12, {{"calibrate", 1.25}}, 1 << 21}};
  report.wall_time_s = 12.5;
  report.calibration_tokens = 32768;
  report.evaluation_tokens = 16320;
  report.fingerprints = {{"config.json", "ab12"}};
  report.warnings = {"careful"};
  return report;
}

TEST(Report, HasTheDocumentedKeys) {
  const json report = json::parse(report_to_json(example()));
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["tool_version"], "1.2.3");
  EXPECT_EQ(report["method"]["name"], "pca_dotresize");
  EXPECT_EQ(report["method"]["lambda"], 0.1);
  EXPECT_EQ(report["method"]["map_sharing"], "junction");
  EXPECT_EQ(report["calibration"]["activations"], "original");
  EXPECT_EQ(report["calibration"]["token_count"], 32768);
  EXPECT_EQ(report["evaluation"]["predicted_tokens"], 16320);
  EXPECT_EQ(report["evaluation"]["token_count"], 16320);
  EXPECT_EQ(report["junctions"][0]["sinkhorn"]["iterations"], 42);
  EXPECT_EQ(report["junctions"][0]["spectrum"],
            json({{"ranks", {1, 256}}, {"energy", {0.5, 1.0}}}));
  EXPECT_EQ(report["junctions"][0]["qr_condition"], 3.5);
  EXPECT_EQ(report["junctions"][0]["transport"], json({{"block", 100},
                                                       {"rows", 3},
                                                       {"columns", 2},
                                                       {"largest", 0.25},
                                                       {"levels", "/wEC/oAA"},
                                                       {"stays", 0.75},
                                                       {"kept_targets", 1.5},
                                                       {"merged_targets", 20.25}}));
  EXPECT_EQ(report["junctions"][1],
            json({{"name", "layers.5.mlp"}, {"width", 256}, {"mapped", false}}));
  EXPECT_EQ(report["dense"]["perplexity"], 26.03);
  EXPECT_EQ(report["compressed"]["bytes"], 1600);
  EXPECT_EQ(report["compressed"]["kl"], 0.125);
  EXPECT_EQ(report["compressed"]["agreement"], 0.75);
  EXPECT_FALSE(report["dense"].contains("kl"));
  EXPECT_EQ(report["ranks"][1]["seconds"]["calibrate"], 1.25);
  EXPECT_EQ(report["fingerprints"]["config.json"], "ab12");
  EXPECT_EQ(report["warnings"], json({"careful"}));
}

TEST(Report, WarnsOfAModelWithTenTimesThePerplexity) {
  Report report = example();
  report.compressed.perplexity = 9.9 * 26.03;
  EXPECT_THAT(warnings_of(report), Not(Contains(HasSubstr("times that of the dense model"))));
  report.compressed.perplexity = 10.1 * 26.03;
  EXPECT_THAT(warnings_of(report),
              Contains(HasSubstr("the perplexity is 10.100 times that of the dense model")));
}

TEST(Report, ItsNameIsNoMarkupOfTheCard) {
  Report report = example();
  report.job.name = "<img src=x onerror=alert(1)> & [a](b) *c*";
  EXPECT_THAT(model_card(report, small_llama()),
              HasSubstr("\n# &lt;img src=x onerror=alert(1)&gt; &amp; \\[a\\](b) \\*c\\*\n"));
}

TEST(Report, ItsWarningsAreInTheCardAndInTheSummary) {
  EXPECT_THAT(model_card(example(), small_llama()), HasSubstr("> **Warning:** careful.\n\n"));
  json document = json::parse(report_to_json(example()));
  EXPECT_EQ(report_summary(document, "report.json").warnings, std::vector<std::string>{"careful"});
  document["warnings"] = 3;
  EXPECT_THROW(report_summary(document, "report.json"), InputError);
}

TEST(Report, HasNominalAndNetSize) {
  Report report = example();
  report.compressed.bytes = 3200;
  json document = json::parse(report_to_json(report));
  EXPECT_EQ(document["method"]["hidden_size"], 256);
  EXPECT_EQ(document["method"]["sparsity"], 0.2);
  EXPECT_EQ(document["method"]["nominal_sparsity"], 1.0 - 200.0 / 256.0);
  EXPECT_EQ(document["method"]["allow_larger"], false);
  EXPECT_EQ(document["compressed"]["parameters_fraction"], 0.8);
  EXPECT_EQ(document["compressed"]["bytes_fraction"], 1.6);
  report.job.target.sparsity.reset();
  report.job.target.size = 0.8;
  document = json::parse(report_to_json(report));
  EXPECT_EQ(document["method"]["size"], 0.8);
}

TEST(Report, TellsTheFormOfEachShortcut) {
  Report report = example();
  ModelConfig output = output_model_config(small_llama(), report.job, report.widths);
  output.form.shortcuts.at(1) = {};
  report.shortcuts = report_shortcuts(output);
  const json document = json::parse(report_to_json(report));
  EXPECT_EQ(document["method"]["shortcuts"], "exact");
  ASSERT_EQ(document["shortcuts"].size(), 12u);
  EXPECT_EQ(document["shortcuts"][0], json({{"name", "layers.0.attention"},
                                            {"rank", 56},
                                            {"exact_rank", 56},
                                            {"parameters", 11200}}));
  EXPECT_EQ(document["shortcuts"][1],
            json({{"name", "layers.0.mlp"}, {"exact_rank", 56}, {"parameters", 40000}}));
}

TEST(Report, TellsTheErrorOfEachHealedLayerAndTheDivergenceAfterEachEpoch) {
  Report report = example();
  EXPECT_FALSE(json::parse(report_to_json(report)).contains("heal"));
  report.job.healing = Healing{.samples = 64};
  report.healing = HealingReport{{{"layers.0", 0.25, 0.125, 3}}, {0.5, 0.375, 0.25}, 0.75};
  report.healing_tokens = 4096;
  const json heal = json::parse(report_to_json(report))["heal"];
  EXPECT_EQ(heal["samples"], 64);
  EXPECT_EQ(heal["epochs"], 3);
  EXPECT_EQ(heal["token_count"], 4096);
  EXPECT_EQ(heal["held_out_kl"], json({0.5, 0.375, 0.25}));
  EXPECT_EQ(heal["update_share"], 0.75);
  EXPECT_EQ(heal["layers"], json::array({{{"name", "layers.0"},
                                          {"folded_error", 0.25},
                                          {"healed_error", 0.125},
                                          {"epochs", 3}}}));
}

TEST(Report, AStockOutputHasNoShortcuts) {
  Report report = example();
  report.job.maps.shared = true;
  report.shortcuts =
      report_shortcuts(output_model_config(small_llama(), report.job, report.widths));
  const json document = json::parse(report_to_json(report));
  EXPECT_FALSE(document.contains("shortcuts"));
  EXPECT_FALSE(document["method"].contains("shortcuts"));
}

TEST(Report, TellsWidthsThatDiffer) {
  Report report = example();
  report.widths.all.front() = 104;
  const json method = json::parse(report_to_json(report))["method"];
  EXPECT_EQ(method["width"], 200);
  EXPECT_EQ(method["nominal_sparsity"], 1.0 - (11 * 200.0 + 104.0) / 12.0 / 256.0);
  EXPECT_THAT(model_card(report, small_llama()), HasSubstr("from 256 to 104 to 200 channels"));
}

TEST(Report, LeavesOutWhatWasNotMeasured) {
  Report report = example();
  report.dense.perplexity.reset();
  report.job.evaluation.reset();
  report.job.method = method_named("slicegpt");
  const json document = json::parse(report_to_json(report));
  EXPECT_FALSE(document["dense"].contains("perplexity"));
  EXPECT_FALSE(document.contains("evaluation"));
  EXPECT_FALSE(document["method"].contains("lambda"));
}

TEST(Report, TellsWhatTheCostsOfARankHaveReached) {
  Report report = example();
  report.ranks[1].cost = {.pairs = 6e9, .seconds = 2.0, .limit_pairs_per_s = 4e9};
  report.ranks[1].peak_device_memory_bytes = 1 << 22;
  const json ranks = json::parse(report_to_json(report))["ranks"];
  EXPECT_FALSE(ranks[0].contains("cost"));
  EXPECT_FALSE(ranks[0].contains("peak_device_memory_bytes"));
  EXPECT_EQ(ranks[1]["peak_device_memory_bytes"], 1 << 22);
  EXPECT_EQ(ranks[1]["cost"], json({{"pairs", 6e9},
                                    {"seconds", 2.0},
                                    {"pairs_per_s", 3e9},
                                    {"limit_pairs_per_s", 4e9},
                                    {"share_of_limit", 0.75}}));
}

TEST(Report, OnACpuTheCostsHaveNoLimit) {
  Report report = example();
  report.ranks[0].cost = {.pairs = 6e9, .seconds = 2.0};
  EXPECT_EQ(json::parse(report_to_json(report))["ranks"][0]["cost"],
            json({{"pairs", 6e9}, {"seconds", 2.0}, {"pairs_per_s", 3e9}}));
}

TEST(Report, EntriesOfJunctionsAndRanksAreReadBack) {
  Report report = example();
  report.junctions.push_back(report.junctions[0]);
  report.junctions[2].sinkhorn_iterations.reset();
  report.junctions[2].spectrum.clear();
  report.junctions[2].transport->merged_targets.reset();
  report.ranks[1].gpu = "a GPU";
  report.ranks[1].peak_device_memory_bytes = 1 << 22;
  report.ranks[1].cost = {.pairs = 6e9, .seconds = 2.0, .limit_pairs_per_s = 4e9};
  for (const JunctionReport& junction : report.junctions) {
    EXPECT_EQ(to_json(junction_report_from_json(to_json(junction))), to_json(junction));
  }
  for (const RankReport& rank : report.ranks) {
    EXPECT_EQ(to_json(rank_report_from_json(to_json(rank))), to_json(rank));
  }
  EXPECT_EQ(junction_report_from_json(to_json(report.junctions[0])).transport,
            report.junctions[0].transport);
  EXPECT_THROW(junction_report_from_json(json::object()), json::exception);
  EXPECT_THROW(rank_report_from_json(json::object()), json::exception);
}

TEST(Report, APlanThatIsNoneIsRefusedByName) {
  const json good = json::parse(report_to_json(example()));
  const auto error = [&](const char* key, const json& value) {
    json document = good;
    json& transport = document["junctions"][0]["transport"];
    if (value.is_null()) {
      transport.erase(key);
    } else {
      transport[key] = value;
    }
    try {
      parse_report(document.dump(), "report.json");
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string("was accepted");
  };
  EXPECT_EQ(error("levels", "/wEC"),
            "report.json: junction 'embed': transport.levels: is not the base64 of 6 bytes");
  const std::vector<std::pair<const char*, json>> wrong = {
      {"block", 0},         {"block", 1e30},         {"rows", 65},          {"rows", -1},
      {"rows", 1},          {"rows", json::array()}, {"columns", 4},        {"columns", 0},
      {"columns", 2.5},     {"largest", 0.0},        {"largest", 1e300},    {"levels", "/wEC/oA!"},
      {"levels", 7},        {"stays", -0.1},         {"stays", 1.1},        {"stays", "all"},
      {"kept_targets", -1}, {"kept_targets", 1e300}, {"merged_targets", -1}};
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(error(key, value),
                testing::StartsWith(std::string("report.json: junction 'embed': transport.")))
        << key << " " << value;
  }
  for (const char* key :
       {"block", "rows", "columns", "largest", "levels", "stays", "kept_targets"}) {
    EXPECT_THAT(error(key, nullptr), HasSubstr("transport.")) << key;
  }
  EXPECT_EQ(error("merged_targets", nullptr), "was accepted");
  json document = good;
  document["junctions"][0]["transport"] = "plan";
  EXPECT_THROW(parse_report(document.dump(), "report.json"), InputError);
}

TEST(Report, SurvivesNumbersAndNamesThatJsonLacks) {
  Report report = example();
  report.compressed.perplexity = std::nan("");
  report.ranks[0].host = "h\xff";
  EXPECT_TRUE(json::parse(report_to_json(report))["compressed"]["perplexity"].is_null());
}

class ReportOnDisk : public testing::Test {
 protected:
  void write(const std::string& text) {
    std::filesystem::create_directories(dir_.path() / "dotresize");
    dir_.write("dotresize/report.json", text);
  }
  std::string error() const {
    try {
      read_report_summary(dir_.path());
    } catch (const InputError& error) {
      return error.what();
    }
    return "was accepted";
  }
  TemporaryDirectory dir_;
};

TEST_F(ReportOnDisk, SummaryIsReadBack) {
  write(report_to_json(example()));
  const ReportSummary summary = read_report_summary(dir_.path());
  EXPECT_EQ(summary.name, "small");
  EXPECT_EQ(summary.method, "pca_dotresize");
  EXPECT_EQ(summary.width, 200);
  EXPECT_EQ(summary.dense.parameters, 1000);
  EXPECT_EQ(summary.dense.perplexity, 26.03);
  EXPECT_EQ(summary.compressed.kl, 0.125);
  EXPECT_EQ(summary.compressed.agreement, 0.75);
  EXPECT_EQ(summary.compressed.bytes, 1600);
  EXPECT_EQ(summary.wall_time_s, 12.5);
}

TEST_F(ReportOnDisk, DtypesOfTheOutputAreReadBack) {
  Report report = example();
  report.compressed.dtypes = {Dtype::kFloat16, {{"model.embed_tokens.weight", Dtype::kFloat32}}};
  write(report_to_json(report));
  EXPECT_EQ(read_report_summary(dir_.path()).output_dtypes, report.compressed.dtypes);
  json document = json::parse(report_to_json(report));
  document["output"]["other_dtypes"]["x"] = "float8";
  write(document.dump());
  EXPECT_THAT(error(), HasSubstr("output.other_dtypes.x: is not one of float32"));
  document.erase("output");
  write(document.dump());
  EXPECT_FALSE(read_report_summary(dir_.path()).output_dtypes);
}

TEST_F(ReportOnDisk, SummaryHasTheTargetAndWidthsThatDiffer) {
  json document = json::parse(report_to_json(example()));
  document["method"].erase("sparsity");
  document["method"]["size"] = 0.8;
  document["method"]["allocate"] = "auto";
  document["method"]["hidden_size"] = 256;
  const auto junction = [](int width, bool mapped) {
    return json{{"name", "j"}, {"width", width}, {"mapped", mapped}};
  };
  document["junctions"] = {junction(168, true), junction(200, true), junction(64, false)};
  write(document.dump());
  ReportSummary summary = read_report_summary(dir_.path());
  EXPECT_EQ(summary.width_range, "168 to 200");
  EXPECT_EQ(summary.hidden_size, 256);
  EXPECT_EQ(summary.target, "size 0.8, allocated");
  document["junctions"] = {3, junction(-1, true)};
  write(document.dump());
  EXPECT_THAT(error(), HasSubstr("junctions.width: -1 is not"));
}

TEST_F(ReportOnDisk, AStoredReportIsSummedUp) {
  const ReportSummary summary = read_report_summary(DOTRESIZE_SOURCE_DIR "/tests/data/output");
  EXPECT_EQ(summary.name, "compatible");
  EXPECT_EQ(summary.method, "pca_dotresize");
  EXPECT_EQ(summary.width, 128);
  EXPECT_EQ(summary.dense.parameters, 6622464);
  EXPECT_EQ(summary.dense.bytes, 13244928);
  EXPECT_EQ(summary.dense.perplexity, 30.06793961989039);
  EXPECT_EQ(summary.compressed.parameters, 4145152);
  EXPECT_EQ(summary.compressed.bytes, 8290304);
  EXPECT_EQ(summary.compressed.perplexity, 399.0528030856072);
  EXPECT_EQ(summary.wall_time_s, 0.682682172);
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->seqlen, 64);
  EXPECT_EQ(summary.fingerprints.at("calibration_tokens"),
            "4470c810f30f5d8354d31976f4db4d8c17f6e825308ec53817d93220621c32c1");
}

TEST_F(ReportOnDisk, TheWindowsOfTheEvaluationAreKnownAgain) {
  Report report = example();
  report.job.calibration = {.text = {"/a.txt", "/b.txt"}, .tokens = "", .samples = 8, .seqlen = 64};
  EvaluationSource& evaluation =
      report.job.evaluation.emplace(EvaluationSource{report.job.calibration});
  evaluation.unused_windows = true;
  evaluation.samples = 3;
  report.evaluation_seqlen = 64;
  write(report_to_json(report));
  const ReportSummary summary = read_report_summary(dir_.path());
  EXPECT_EQ(summary.calibration.text, report.job.calibration.text);
  EXPECT_EQ(summary.calibration.samples, 8);
  EXPECT_EQ(summary.calibration.seqlen, 64);
  ASSERT_TRUE(summary.evaluation);
  EXPECT_TRUE(summary.evaluation->unused_windows);
  EXPECT_EQ(summary.evaluation->samples, 3);
  EXPECT_EQ(summary.evaluation->seqlen, 64);
  EXPECT_EQ(summary.evaluation->text, report.job.calibration.text);
}

TEST_F(ReportOnDisk, UnmeasuredPerplexityStaysUnmeasured) {
  Report report = example();
  report.dense.perplexity.reset();
  report.compressed.perplexity = std::nan("");
  write(report_to_json(report));
  EXPECT_EQ(read_report_summary(dir_.path()).dense.perplexity, std::nullopt);
  EXPECT_EQ(read_report_summary(dir_.path()).compressed.perplexity, std::nullopt);
}

TEST_F(ReportOnDisk, MalformedReportsAreRefusedWithTheKey) {
  EXPECT_THAT(error(), HasSubstr("report.json: no such file"));
  write("{}");
  EXPECT_THAT(error(), HasSubstr("schema_version: is missing"));
  write(R"({"schema_version": 2})");
  EXPECT_THAT(error(), HasSubstr("schema_version: 2 is not"));
  json document = json::parse(report_to_json(example()));
  document["dense"] = 3;
  write(document.dump());
  EXPECT_THAT(error(), HasSubstr("dense: 3 is not an object"));
  document["dense"] = {{"parameters", -1}};
  write(document.dump());
  EXPECT_THAT(error(), HasSubstr("dense.parameters: -1 is not"));
  document = json::parse(report_to_json(example()));
  document["compressed"]["agreement"] = 1.5;
  write(document.dump());
  EXPECT_THAT(error(), HasSubstr("compressed.agreement: is not a number from 0 to 1"));
}

TEST(ModelCard, SaysWhatItIsHowToLoadItAndTheNumbers) {
  const std::string card = model_card(example(), small_llama());
  EXPECT_THAT(card, testing::StartsWith("---\nlibrary_name: transformers\n"));
  EXPECT_THAT(card, HasSubstr("from 256 to 200 channels with `pca_dotresize`"));
  EXPECT_THAT(card, HasSubstr("trust_remote_code=True"));
  EXPECT_THAT(card, HasSubstr("| dense | 1,000 | 1.95 KiB | 26.0300 |"));
  EXPECT_THAT(card, HasSubstr("| this one | 800 | 1.56 KiB | 29.0500 |"));
  EXPECT_THAT(card, HasSubstr("16,320 predicted tokens in windows of 256"));
  EXPECT_THAT(card, HasSubstr("KL(dense ‖ this one) is 0.1250 nats"));
  EXPECT_THAT(card, HasSubstr("the same at 75.0 % of them"));
}

TEST(ModelCard, OfAnAllocationThatKeepsTheWidthsSaysWhatWasCutAndHowItIsServed) {
  Report report = example();
  report.widths.mapped_count = 0;
  report.job.target.allocation = AllocationTarget{.size = 0.8};
  report.allocation = Allocation{
      {{0, &kValueChannels, 8}, {1, &kFeatures, 10}, {2, &kValueChannels, 6}, {3, &kExperts, 3}}};
  report.cuts = {{"layers.0.attention", {{&kValueChannels, 8, 32}}},
                 {"layers.0.mlp", {{&kFeatures, 10, 768}}},
                 {"layers.1.attention", {{&kValueChannels, 6, 32}}},
                 {"layers.1.mlp", {{&kFeatures, 20, 768}}}};
  report.healing = HealingReport{{}, {0.5, 0.25}, 1.0};
  report.healing_tokens = 4096;
  const std::string card = model_card(report, small_llama());
  EXPECT_THAT(card, HasSubstr("The residual stream keeps its 256 channels."));
  EXPECT_THAT(card,
              HasSubstr("Left are features 10, 20 (by layer); value channels 8, 6 (by layer). KL"));
  report.cuts.back().sizes.push_back({&kExperts, 3, 4});
  EXPECT_THAT(model_card(report, small_llama()),
              HasSubstr("Left are features 10, 20 (by layer); experts 0, 3 (by layer); value "));
  EXPECT_THAT(card, HasSubstr("nats before healing, and measured 0.1250."));
  EXPECT_THAT(card, HasSubstr("on 4,096 tokens: on windows held out of them, KL went from 0.5000"));
  EXPECT_THAT(card, HasSubstr("`--to nemotron-nas` a model that vLLM"));
  EXPECT_THAT(card, Not(HasSubstr("shortcuts")));
  EXPECT_THAT(model_card(example(), small_llama()), Not(HasSubstr("dotresize export")));
}

TEST(ModelCard, OfAModelWithASlidingWindowNamesNoExportThatRefusesWindows) {
  Report report = example();
  report.widths.mapped_count = 0;
  ModelConfig windowed = small_llama();
  windowed.family = "mistral";
  EXPECT_THAT(model_card(report, windowed), HasSubstr("`--to nemotron-nas`"));
  windowed.layers.front().attention.sliding_window = 4096;
  EXPECT_THAT(model_card(report, windowed), HasSubstr("`dotresize export PATH --to gguf`"));
  EXPECT_THAT(model_card(report, windowed), Not(HasSubstr("nemotron-nas")));
}

TEST(ModelCard, DependsOnNoTime) {
  Report later = example();
  later.wall_time_s = 99.0;
  later.ranks[0].seconds["calibrate"] = 77.0;
  EXPECT_EQ(model_card(later, small_llama()), model_card(example(), small_llama()));
}

TEST(ModelCard, WithoutEvaluationThereAreNoPerplexities) {
  Report report = example();
  report.job.evaluation.reset();
  report.dense.perplexity.reset();
  report.compressed.perplexity.reset();
  EXPECT_THAT(model_card(report, small_llama()), Not(HasSubstr("erplexity")));
}

}  // namespace
}  // namespace dotresize
