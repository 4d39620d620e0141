#include "job/spec/sweep_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/errors.h"
#include "job/sweep/sweep_run.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGood = R"(name: docs
model: {path: /m}
output: {path: /o}
method:
  name: pca_dotresize
  size: 0.8
calibration: {tokens: /c.safetensors}
evaluation: {tokens: /e.safetensors}
sweep:
  method.lambda: [0.1, 1]
  method.width: [100, 200]
)";

SweepFile parsed_sweep(const std::string& text) { return parse_sweep(text, "sweep.yaml", "/jobs"); }

std::string fault_of(const std::string& from, const std::string& to) {
  try {
    parsed_sweep(with(kGood, from, to));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

std::vector<std::string> values_of(const std::string& range) {
  std::vector<std::string> values;
  const SweepFile sweep = parsed_sweep(with(kGood, "[0.1, 1]", range));
  for (const SweepAxis::Value& value : sweep.axes.at(0).values) values.push_back(value.text);
  return values;
}

TEST(SweepFile, HasAllCombinationsTheLastKeyFastest) {
  const std::vector<SweepVariant> variants = variants_of(parsed_sweep(kGood));
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_THAT(variants[1].values, ElementsAre("0.1", "200"));
  EXPECT_DOUBLE_EQ(variants[1].spec.method().lambda(), 0.1);
  EXPECT_EQ(variants[1].spec.method().width(), 200u);
  EXPECT_FALSE(variants[1].spec.method().has_size());  // the width replaces it
  EXPECT_THAT(variants[2].values, ElementsAre("1", "100"));
}

TEST(SweepFile, KnowsTheLinesOfItsKeys) {
  const SweepFile sweep = parsed_sweep(kGood);
  EXPECT_EQ(sweep.base.place_of("method.size"), "sweep.yaml:6");
  EXPECT_EQ(sweep.base.place_of("sweep"), "sweep.yaml:9");
  EXPECT_EQ(sweep.base.place_of("sweep.parallel"), "sweep.yaml:9");
  EXPECT_EQ(sweep.base.place_of("sweep.method.width"), "sweep.yaml:11");
}

TEST(SweepFile, RangesHaveBothEnds) {
  EXPECT_THAT(values_of("{from: 0.9, to: 0.6, steps: 4}"), ElementsAre("0.9", "0.8", "0.7", "0.6"));
  EXPECT_THAT(values_of("{from: 0.01, to: 10, steps: 4, scale: log}"),
              ElementsAre("0.01", "0.1", "1", "10"));
}

TEST(SweepFile, PathsAreRelativeToTheFile) {
  const SweepFile sweep =
      parsed_sweep(with(kGood, "method.lambda: [0.1, 1]", "calibration.text: [[a.txt], [b.txt]]"));
  const std::vector<SweepVariant> variants = variants_of(sweep);
  EXPECT_EQ(variants.back().spec.calibration().text(0), "/jobs/b.txt");
  EXPECT_TRUE(variants.back().spec.calibration().tokens().empty());
}

TEST(SweepFile, WhatOneCombinationCannotBeIsItsOwnViolation) {
  const std::vector<SweepVariant> variants =
      variants_of(parsed_sweep(with(kGood, "method.lambda: [0.1, 1]",
                                    "method.name: [dotresize, slicegpt]\n"
                                    "  method.metric: [activation, fisher]")));
  ASSERT_EQ(variants.size(), 8u);
  for (size_t i = 0; i < variants.size(); ++i) {
    const bool dotresize_in_fisher = i == 2 || i == 3;
    ASSERT_EQ(variants[i].violations.size(), dotresize_in_fisher ? 1u : 0u) << i;
    if (dotresize_in_fisher) {
      EXPECT_EQ(variants[i].violations.front().field, "method.metric");
    }
  }
}

TEST(SweepFile, HasAtMostSoManyCombinations) {
  std::string values = "[1";
  for (int i = 2; i <= 64; ++i) values += fmt::format(", {}", i);
  const std::string most = with(kGood, "[0.1, 1]", values + "]");
  const std::string widths = "method.width: " + values;
  EXPECT_EQ(variants_of(parsed_sweep(with(most, "method.width: [100, 200]", widths + "]"))).size(),
            4096u);
  EXPECT_THAT(fault_of("method.lambda: [0.1, 1]\n  method.width: [100, 200]",
                       "method.lambda: " + values + "]\n  " + widths + ", 65]"),
              HasSubstr("sweep: has more than 4096 combinations"));
}

TEST(SweepFile, NeitherManyKeysNorOneOfManyPartsTakeLong) {
  std::string keys;
  for (int i = 0; i < 100; ++i) keys += fmt::format("method.x{}: [1]\n  ", i);
  EXPECT_THAT(fault_of("method.lambda: [0.1, 1]", keys + "method.y: [1]"),
              HasSubstr("sweep: varies more than 64 keys"));
  const std::string parts = "method" + std::string(200'000, '.');
  EXPECT_THAT(fault_of("method.lambda: [0.1, 1]", "? " + parts + "\n  : [0.1, 1]"),
              HasSubstr("sweep.method.'': unknown key"));
}

std::string fault_of_change(const std::string& change) {
  try {
    parse_sweep(kGood, "sweep.yaml", "/jobs", {change});
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(SweepFile, ChangesAreOfTheJob) {
  const SweepFile sweep =
      parse_sweep(kGood, "sweep.yaml", "/jobs", {"calibration.samples=7", "method.name=slicegpt"});
  for (const SweepVariant& variant : variants_of(sweep)) {
    EXPECT_EQ(variant.spec.calibration().samples(), 7u);
    EXPECT_EQ(variant.spec.method().name(), v1::Method::slicegpt);
  }
  EXPECT_EQ(fault_of_change("method.lambda=3"),
            "--set method.lambda=3: method.lambda: has no effect: the sweep varies method.lambda");
  EXPECT_THAT(fault_of_change("method.size=0.7"), HasSubstr("the sweep varies method.width"));
  EXPECT_THAT(fault_of_change("output.overwrite=true"),
              HasSubstr("--set output.overwrite=true: output.overwrite: has no use"));
  EXPECT_THAT(fault_of_change("calibration.samples=0"),
              HasSubstr("--set calibration.samples=0: calibration.samples: "));
}

TEST(SweepFile, KeepSaysWhichModelsStay) {
  EXPECT_EQ(parsed_sweep(kGood).keep, KeptModels::kBest);
  EXPECT_EQ(parsed_sweep(with(kGood, "sweep:\n", "sweep:\n  keep: all\n")).keep, KeptModels::kAll);
  EXPECT_EQ(parsed_sweep(with(kGood, "sweep:\n", "sweep:\n  keep: none\n")).keep,
            KeptModels::kNone);
  EXPECT_THAT(fault_of("sweep:\n", "sweep:\n  keep: all\n  keep: best\n"),
              HasSubstr("sweep.yaml:11: sweep.keep: is given twice"));
}

/// Checking every duplicate of thousands took ten seconds, in which other callers waited.
TEST(SweepFile, StopsAtTheFirstValueThatIsGivenTwice) {
  std::string values = "[1";
  for (int i = 0; i < 4095; ++i) values += ", 1";
  const std::string fault = fault_of("[0.1, 1]", values + "]");
  EXPECT_THAT(fault, HasSubstr("'1' is given twice"));
  EXPECT_EQ(fault.find("is given twice"), fault.rfind("is given twice"));
}

TEST(SweepFile, FaultsHaveFileAndLine) {
  EXPECT_THAT(fault_of("method.lambda", "method.lamda"),
              HasSubstr("sweep.yaml:10: sweep.method.lamda: unknown key, did you mean 'lambda'?"));
  EXPECT_THAT(fault_of("[0.1, 1]", "[0.1, -1]"),
              HasSubstr("sweep.yaml:10: method.lambda: -1 is not above 0"));
  EXPECT_THAT(fault_of("[0.1, 1]", "[0.1, soft]"),
              HasSubstr("sweep.yaml:10: sweep.method.lambda: 'soft' is not a finite number"));
  EXPECT_THAT(fault_of("[0.1, 1]", "[1, 1]"), HasSubstr("'1' is given twice"));
  EXPECT_THAT(fault_of("[0.1, 1]", "[]"), HasSubstr("has no values"));
  EXPECT_THAT(fault_of("[0.1, 1]", "0.1"), HasSubstr("must be a list of values, or a range"));
  EXPECT_THAT(fault_of("[0.1, 1]", "{from: 1, to: 2}"), HasSubstr("the range needs steps"));
  EXPECT_THAT(fault_of("[0.1, 1]", "{from: 0, to: 2, steps: 3, scale: log}"),
              HasSubstr("must be above 0"));
  for (const char* steps : {"1.5", "1", "1001"}) {
    EXPECT_THAT(fault_of("[0.1, 1]", fmt::format("{{from: 1, to: 2, steps: {}}}", steps)),
                HasSubstr("steps must be a whole number from 2 to 1000"));
  }
  EXPECT_THAT(fault_of("[0.1, 1]", "{from: 1, to: 2, steps: 3, scale: cubic}"),
              HasSubstr("scale must be linear or log"));
  EXPECT_THAT(fault_of("[0.1, 1]", "{from: 1, from: 1, to: 2, steps: 3}"),
              HasSubstr("a range has the keys from, to, steps, scale, once each"));
  EXPECT_THAT(fault_of("method.lambda", "method.size"),
              HasSubstr("sweep.method.width: does not go with method.size"));
  EXPECT_THAT(fault_of("method.lambda", "resources.ranks"),
              HasSubstr("only keys of method and calibration can be varied"));
  EXPECT_THAT(fault_of("method.lambda: [0.1, 1]", "calibration.statistics.use: [/s]"),
              HasSubstr("a sweep keeps statistics by itself"));
  EXPECT_THAT(fault_of("evaluation: {tokens: /e.safetensors}\n", ""),
              HasSubstr("evaluation: is required"));
  EXPECT_THAT(fault_of("model: {path: /m}\n", ""), HasSubstr("model.path: is required"));
  EXPECT_THAT(fault_of("sweep:\n", "sweep: {keep: all}\nsweep:\n"), HasSubstr("is given twice"));
  EXPECT_THAT(fault_of("  method.lambda: [0.1, 1]\n  method.width: [100, 200]\n", "  keep: none\n"),
              HasSubstr("varies no key"));
}

TEST(SweepFile, MayNotBeLargerThanItsVariantsAreSmall) {
  std::string texts;
  for (int i = 0; i < 10000; ++i) texts += fmt::format("/t{}, ", i);
  const std::string file = with(kGood, "calibration: {tokens: /c.safetensors}",
                                fmt::format("calibration: {{text: [{}]}}", texts));
  EXPECT_EQ(variants_of(parsed_sweep(file)).size(), 4u);
  try {
    parsed_sweep(with(file, "[100, 200]", "{from: 1, to: 1000, steps: 1000}"));
    FAIL() << "was accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 2000 combinations of"));
  }
  std::string numbers;
  for (int i = 1; i < 4099; ++i) numbers += fmt::format("{}, ", i);
  EXPECT_THAT(fault_of("[100, 200]", "[" + numbers + "]"), HasSubstr("has 4098 values"));
}

TEST(SweepRun, JobsRunSideBySideUnlessTheyHaveGpus) {
  SweepPlan plan;
  plan.jobs.resize(8);
  for (SweepJob& job : plan.jobs) job.on_gpus = true;  // device: auto
  EXPECT_EQ(jobs_at_once(plan, {.at_once = 4, .gpus = false}), 4);
  EXPECT_THROW(jobs_at_once(plan, {.at_once = 4, .gpus = true}), InputError);
  EXPECT_EQ(jobs_at_once(plan, {.at_once = 1, .gpus = true}), 1);
}

TEST(SweepMessage, GivesTheSameJobs) {
  const SweepFile sweep = parsed_sweep(with(kGood, "method.lambda: [0.1, 1]",
                                            "keep: all\n"
                                            "  method.name: [pca_dotresize, magnitude]\n"
                                            "  method.lambda: [1e-3, 0.1]\n"
                                            "  method.round_to: [0, 16]\n"
                                            "  method.allow_larger: [false]\n"
                                            "  calibration.text: [[a.txt, b.txt], [/c.txt]]"));
  const std::string json = sweep_to_json(sweep.base.spec, sweep_spec_of(sweep));
  const SweepFile again = parse_sweep(json, "again", "/elsewhere");
  EXPECT_EQ(again.keep, KeptModels::kAll);
  const auto before = variants_of(sweep);
  const auto after = variants_of(again);
  ASSERT_EQ(after.size(), 32u);
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(job_spec_to_json(after[i].spec), job_spec_to_json(before[i].spec));
  }
  EXPECT_THAT(after[0].values,
              ElementsAre("pca_dotresize", "0.001", "0", "false", testing::_, "100"));
}

TEST(SweepMessage, CannotHaveWhatASweepFileCannotHave) {
  const SweepFile good = parsed_sweep(kGood);
  const auto fault_with = [&](const std::string& key, const google::protobuf::Value& value) {
    v1::SweepSpec spec = sweep_spec_of(good);
    spec.add_axes()->set_key(key);
    *spec.mutable_axes(2)->mutable_values()->add_values() = value;
    try {
      parse_sweep(sweep_to_json(good.base.spec, spec), "sweep", "/");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("was accepted");
  };
  google::protobuf::Value number;
  number.set_number_value(1.0);
  EXPECT_THAT(fault_with("method.lambda", number), HasSubstr("is given twice"));
  EXPECT_THAT(fault_with("a\": [], \"output.path", number), HasSubstr("only keys of method"));
  EXPECT_THAT(fault_with("keep", number), HasSubstr("sweep.keep"));
  google::protobuf::Value text;
  text.set_string_value("1], \"output.path\": [\"/a\"");
  EXPECT_THAT(fault_with("method.head", text), HasSubstr("is not one of"));
  google::protobuf::Value deep;
  for (google::protobuf::Value* at = &deep; number.number_value() < 40.0;) {
    number.set_number_value(number.number_value() + 1.0);
    at = at->mutable_list_value()->add_values();
  }
  EXPECT_THAT(fault_with("method.head", deep), HasSubstr("sweep"));
  number.set_number_value(std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(fault_with("method.round_to", number), "was accepted");
}

}  // namespace
}  // namespace dotresize
