#include "job/spec/sweep_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "tests/job/test_configs.h"

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

SweepFile parse(const std::string& text) { return parse_sweep(text, "sweep.yaml", "/jobs"); }

std::string fault_of(const std::string& from, const std::string& to) {
  try {
    parse(with(kGood, from, to));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

std::vector<std::string> values_of(const std::string& range) {
  std::vector<std::string> values;
  const SweepFile sweep = parse(with(kGood, "[0.1, 1]", range));
  for (const SweepAxis::Value& value : sweep.axes.at(0).values) values.push_back(value.text);
  return values;
}

TEST(SweepFile, HasAllCombinationsTheLastKeyFastest) {
  const std::vector<SweepVariant> variants = variants_of(parse(kGood));
  ASSERT_EQ(variants.size(), 4u);
  EXPECT_THAT(variants[1].values, ElementsAre("0.1", "200"));
  EXPECT_DOUBLE_EQ(variants[1].spec.method().lambda(), 0.1);
  EXPECT_EQ(variants[1].spec.method().width(), 200u);
  EXPECT_FALSE(variants[1].spec.method().has_size());  // a width takes its place
  EXPECT_THAT(variants[2].values, ElementsAre("1", "100"));
}

TEST(SweepFile, RangesHaveBothEnds) {
  EXPECT_THAT(values_of("{from: 0.9, to: 0.6, steps: 4}"), ElementsAre("0.9", "0.8", "0.7", "0.6"));
  EXPECT_THAT(values_of("{from: 0.01, to: 10, steps: 4, scale: log}"),
              ElementsAre("0.01", "0.1", "1", "10"));
}

TEST(SweepFile, PathsAreRelativeToTheFile) {
  const SweepFile sweep =
      parse(with(kGood, "method.lambda: [0.1, 1]", "calibration.text: [[a.txt], [b.txt]]"));
  const std::vector<SweepVariant> variants = variants_of(sweep);
  EXPECT_EQ(variants.back().spec.calibration().text(0), "/jobs/b.txt");
  EXPECT_TRUE(variants.back().spec.calibration().tokens().empty());
}

TEST(SweepFile, WhatOneCombinationCannotBeIsItsOwnViolation) {
  const std::vector<SweepVariant> variants =
      variants_of(parse(with(kGood, "method.lambda: [0.1, 1]",
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
  EXPECT_EQ(variants_of(parse(with(most, "method.width: [100, 200]", widths + "]"))).size(), 4096u);
  EXPECT_THAT(fault_of("method.lambda: [0.1, 1]\n  method.width: [100, 200]",
                       "method.lambda: " + values + "]\n  " + widths + ", 65]"),
              HasSubstr("sweep: has more than 4096 combinations"));
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
              HasSubstr("--set output.overwrite=true: output.overwrite: is of no use"));
  EXPECT_THAT(fault_of_change("calibration.samples=0"),
              HasSubstr("--set calibration.samples=0: calibration.samples: "));
}

TEST(SweepFile, KeepSaysWhichModelsStay) {
  EXPECT_EQ(parse(kGood).keep, KeptModels::kBest);
  EXPECT_EQ(parse(with(kGood, "sweep:\n", "sweep:\n  keep: all\n")).keep, KeptModels::kAll);
  EXPECT_EQ(parse(with(kGood, "sweep:\n", "sweep:\n  keep: none\n")).keep, KeptModels::kNone);
  EXPECT_THAT(fault_of("sweep:\n", "sweep:\n  keep: all\n  keep: best\n"),
              HasSubstr("sweep.yaml:11: sweep.keep: is given twice"));
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

}  // namespace
}  // namespace dotresize
