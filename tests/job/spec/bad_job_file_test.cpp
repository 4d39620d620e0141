#include <gmock/gmock.h>

#include <sstream>

#include "base/errors.h"
#include "job/spec/job_file.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

constexpr const char* kGood = R"(name: docs
model:
  path: /m
output:
  path: /o
method:
  name: pca_dotresize
  sparsity: 0.2
calibration:
  tokens: /c.safetensors
evaluation:
  text: [/e.txt]
resources:
  ranks: 8
)";

struct BadJob {
  std::string name;
  std::string text;
  std::string message;  ///< a line of the error, or its beginning, after "job.yaml:"
};

void PrintTo(const BadJob& job, std::ostream* out) { *out << job.name; }

std::string good_with(const std::string& from, const std::string& to) {
  return with(kGood, from, to);
}

std::string method_with(const std::string& line) {
  return good_with("  sparsity: 0.2", "  sparsity: 0.2\n  " + line);
}

/// Returns the job without the name of a method.
std::string unnamed_with(const std::string& from, const std::string& to) {
  return with(good_with(from, to), "name: pca_dotresize", "round_to: 8");
}

std::vector<BadJob> bad_jobs() {
  return {
      {"Empty", "", "1: is empty"},
      {"OnlyAComment", "# nothing\n", "1: is empty"},
      {"RootIsAList", "- name: x\n", "1: must be a map"},
      {"RootIsAWord", "hello", "1: must be a map"},
      {"SyntaxError", good_with("path: /m", "path: 'open"), "14: is not valid YAML"},
      {"DocumentsWithoutEnd",
       ",th-\x05"
       "e\"patmo-\x05"
       "en",
       "1: is empty"},
      {"TwoDocuments", std::string(kGood) + "---\nname: b\n", "16: a second YAML document"},
      {"NestingBomb", std::string(100000, '['), "1: is nested too deeply"},
      {"NotUtf8", "name: \xff\xfe", "1: is not UTF-8 text"},
      {"Utf32", std::string(",\0\0\0\0\0\0\0th", 10), "1: is not UTF-8 text"},
      {"UnknownAnchor", good_with("docs", "*docs"), "1: is not valid YAML"},
      {"MisspeltKey", good_with("sparsity", "sparsty"),
       "8: method.sparsty: unknown key, did you mean 'sparsity'?"},
      {"MisspeltSection", good_with("calibration", "callibration"),
       "9: callibration: unknown key, did you mean 'calibration'?"},
      {"ForeignKey", method_with("xyzzy: 1"), "9: method.xyzzy: unknown key; the keys here are "},
      {"KeyThatIsAList", std::string("? [a]\n: 1\n") + kGood, "1: ?: a key must be a word"},
      {"KeyGivenTwice", method_with("sparsity: 0.3"),
       "9: method.sparsity: is given twice, first in line 8"},
      {"SectionGivenTwice", std::string(kGood) + "model: {path: /n}\n",
       "15: model: is given twice, first in line 2"},
      {"MergeKey", method_with("<<: {width: 3}"), "9: method.'<<': unknown key"},
      {"ListForAValue", good_with("path: /m", "path: [/m]"),
       "3: model.path: must be one value, not a list"},
      {"MapForAValue", good_with("name: docs", "name: {a: b}"),
       "1: name: must be one value, not a map"},
      {"ValueForAList", good_with("[/e.txt]", "/e.txt"), "12: evaluation.text: must be a list"},
      {"ListInAList", good_with("[/e.txt]", "[[/e.txt]]"),
       "12: evaluation.text: every entry of the list must be a text"},
      {"ValueForASection", good_with("model:\n  path: /m", "model: /m\n"),
       "2: model: must be a section with the keys path"},
      {"FormatByAnotherName", good_with("path: /o", "path: /o\n  format: gguf"), "6: "},
      {"StockModelOfCompressedActivations",
       with(good_with("path: /o", "path: /o\n  format: stock"),
            "calibration:", "calibration:\n  activations: compressed"),
       "11: calibration.activations: compressed does not go with output.format: stock"},
      {"StatisticsSavedAndUsed",
       good_with("calibration:", "calibration:\n  statistics: {save: /s, use: /t}"),
       "10: calibration.statistics: save and use are given: only one of them can be"},
      {"StatisticsOfNothing", good_with("calibration:", "calibration:\n  statistics: {}"),
       "10: calibration.statistics: one of save and use must be given"},
      {"StatisticsOfCompressedActivations",
       good_with("calibration:",
                 "calibration:\n  activations: compressed\n  statistics: {use: /s}"),
       "10: calibration.activations: compressed does not go with calibration.statistics"},
      {"StatisticsOfAModelWithCutMlps",
       with(method_with("mlp: {sparsity: 0.2}"),
            "calibration:", "calibration:\n  statistics: {use: /s}"),
       "11: calibration.statistics: are those of the dense model, and method.mlp changes it"},
      {"WordForANumber", good_with("0.2", "much"), "8: method.sparsity: 'much' is not a finite"},
      {"TextForANumber", good_with("0.2", "\"0.2\""), "8: method.sparsity: '0.2' is not a finite"},
      {"NanSparsity", good_with("0.2", "nan"), "8: method.sparsity: 'nan' is not a finite number"},
      {"YamlNan", good_with("0.2", ".nan"), "8: method.sparsity: '.nan' is not a finite number"},
      {"InfiniteLambda", method_with("lambda: inf"), "9: method.lambda: 'inf' is not a finite"},
      {"OverflowingLambda", method_with("lambda: 1e999"), "9: method.lambda: '1e999' is not a"},
      {"NegativeCount", good_with("ranks: 8", "ranks: -1"),
       "14: resources.ranks: '-1' is not a whole number from 0 to 4294967295"},
      {"CountAbove32Bits", good_with("ranks: 8", "ranks: 4294967296"),
       "14: resources.ranks: '4294967296' is not a whole number"},
      {"FractionalCount", good_with("ranks: 8", "ranks: 8.0"), "14: resources.ranks: '8.0' is not"},
      {"UnknownDevice", good_with("ranks: 8", "device: cuda:0"),
       "14: resources.device: 'cuda:0' is not one of auto, cpu, cuda"},
      {"EnumByNumber", good_with("pca_dotresize", "2"), "7: method.name: '2' is not one of pca_"},
      {"YesForTrue", good_with("path: /o", "path: /o\n  overwrite: yes"),
       "6: output.overwrite: 'yes' is not true or false"},
      {"ControlCharactersAreNotEchoed", good_with("ranks: 8", "device: \"\\e[31m\""),
       R"(14: resources.device: '\x1b[31m' is not)"},
      {"ASweep", good_with("name: docs\n", "sweep: {method.lambda: [1]}\n"),
       "1: sweep: makes this a sweep, not a job: `dotresize sweep "},
      {"LongName", good_with("docs", std::string(101, 'x')), "1: name: has 101 characters"},
      {"NameWithNewline", good_with("docs", "\"a\\nb\""),
       R"(1: name: 'a\x0ab' has control characters)"},
      {"NoModel", good_with("model:\n  path: /m\n", ""), "1: model.path: is required"},
      {"NoModelPath", good_with("  path: /m", "  path:"), "3: model.path: is required"},
      {"NoOutput", good_with("output:\n  path: /o\n", ""), "1: output.path: is required"},
      {"OutputIsModel", good_with("/o", "/m/"), "5: output.path: '/m' and model.path, '/m', must"},
      {"OutputInModel", good_with("/o", "/m/x/../y"), "5: output.path: '/m/y' and model.path"},
      {"ModelInOutput", good_with("path: /m", "path: /o/m"), "5: output.path: '/o' and model.path"},
      {"NulInPath", good_with("/o", "\"/o\\0x\""), R"(5: output.path: '/o\x00x' has control)"},
      {"LongPath", good_with("/o", "/" + std::string(5000, 'o')), "5: output.path: is longer than"},
      {"SparsityOne", good_with("0.2", "1.0"),
       "8: method.sparsity: 1 is not a fraction of the width: 0 or more, and below 1"},
      {"NegativeSparsity", good_with("0.2", "-0.1"), "8: method.sparsity: -0.1 is not a fraction"},
      {"SparsityInPercent", good_with("0.2", "20"),
       "8: method.sparsity: 20 is not a fraction of the width: 0 or more, and below 1; did you "
       "mean "
       "0.2?"},
      {"SizeInPercent", good_with("sparsity: 0.2", "size: 70"),
       "8: method.size: 70 is not below 1, as it must be without method.allow_larger: true; did "
       "you "
       "mean 0.7?"},
      {"SparsityAndWidth", method_with("width: 200"),
       "8: method.sparsity: sparsity and width are given: only one of them can be"},
      {"WidthAndSize", good_with("sparsity: 0.2", "size: 0.8\n  width: 200"),
       "9: method.width: width and size are given: only one of them can be"},
      {"NoTarget", good_with("  sparsity: 0.2\n", ""),
       "6: method.sparsity: one of sparsity, width, size, bytes and speed must be given"},
      {"SizeAndBytes", good_with("sparsity: 0.2", "size: 0.8\n  bytes: 5MB"),
       "8: method.size: size and bytes are given: only one of them can be"},
      {"BytesInWords", good_with("sparsity: 0.2", "bytes: half"),
       "8: method.bytes: 'half' is no number of bytes, as in 900MB"},
      {"SpeedOfMaps", good_with("sparsity: 0.2", "speed: 1.3"),
       "8: method.speed: goes with no other key of the method than round_to; give size in its "
       "place"},
      {"SlowerThanDense", good_with("sparsity: 0.2", "speed: 0.9"),
       "8: method.speed: 0.9 is not above 1 and at most 1000"},
      {"SizeBeyondAll", good_with("sparsity: 0.2", "size: 1e300"),
       "8: method.size: 1e+300 is not above 0 and at most 1000"},
      {"SizeZero", good_with("sparsity: 0.2", "size: 0"), "8: method.size: 0 is not above 0"},
      {"SizeOne", good_with("sparsity: 0.2", "size: 1"),
       "8: method.size: 1 is not below 1, as it must be without method.allow_larger: true"},
      {"RetiredKey", good_with("sparsity: 0.2", "widths: {keep: 0.9}"),
       "8: method.widths: unknown key"},
      {"FisherOfDotresize",
       with(method_with("metric: fisher"), "name: pca_dotresize", "name: dotresize"),
       "9: method.metric: fisher does not go with dotresize, whose transport"},
      {"FisherOfCompressedActivations",
       with(method_with("metric: fisher"),
            "calibration:", "calibration:\n  activations: compressed"),
       "11: calibration.activations: compressed does not go with method.metric: fisher, whose"},
      {"Shortcuts", method_with("shortcuts: 8"), "9: method.shortcuts: unknown key"},
      {"MlpOfNothing", method_with("mlp: {}"),
       "9: method.mlp.sparsity: one of sparsity and width must be given"},
      {"MlpOfBoth", method_with("mlp: {sparsity: 0.2, width: 640}"),
       "9: method.mlp.sparsity: sparsity and width are given"},
      {"MlpInPercent", method_with("mlp: {sparsity: 20}"),
       "9: method.mlp.sparsity: 20 is not a fraction of the features: 0 or more, and below 1; "
       "did you mean 0.2?"},
      {"AllocateWithoutASize", unnamed_with("  sparsity: 0.2", "  sparsity: 0.2\n  allocate: auto"),
       "9: method.allocate: auto does not go with method.sparsity, which it chooses"},
      {"AllocateWithMlp",
       unnamed_with("sparsity: 0.2", "size: 0.8\n  allocate: auto\n  mlp: {sparsity: 0.1}"),
       "9: method.allocate: auto does not go with method.mlp, which it chooses"},
      {"AllocateNothing", unnamed_with("sparsity: 0.2", "allocate: auto"),
       "8: method.allocate: auto needs method.size, the bytes that it divides"},
      {"AllocateByTheActivations",
       unnamed_with("sparsity: 0.2", "size: 0.8\n  allocate: auto\n  metric: activation"),
       "9: method.allocate: auto needs method.metric: fisher"},
      {"AllocateWithAName", good_with("sparsity: 0.2", "size: 0.8\n  allocate: auto"),
       "9: method.allocate: auto does not go with method.name, because it makes no maps"},
      {"AllocateWithAHead", unnamed_with("sparsity: 0.2", "size: 0.8\n  head: sliced"),
       "6: method.allocate: auto does not go with method.head, because it makes no maps; a "
       "method.name with it does"},
      {"AllocateOfCompressedActivations",
       with(unnamed_with("sparsity: 0.2", "size: 0.8\n  allocate: auto"),
            "calibration:", "calibration:\n  activations: compressed"),
       "11: calibration.activations: compressed does not go with method.allocate: auto, which"},
      {"SharingOfMapsByItsOldKey", method_with("map_sharing: model"),
       "9: method.map_sharing: unknown key"},
      {"MlpWidthsByLayer", method_with("mlp: {sparsity: 0.2, widths: by_loss}"),
       "9: method.mlp.widths: unknown key"},
      {"MetricByAnotherName", method_with("metric: hessian"), "9: "},
      {"DenseHeadOfAStockModel",
       with(method_with("head: dense"), "path: /o", "path: /o\n  format: stock"),
       "10: method.head: dense does not go with output.format: stock"},
      {"WidthZero", good_with("sparsity: 0.2", "width: 0"), "8: method.width: 0 is not from 1 to"},
      {"LambdaZero", method_with("lambda: 0"), "9: method.lambda: 0 is not above 0"},
      {"HugeLambda", method_with("lambda: 1e300"), "9: method.lambda: 1e+300 is not above 0"},
      {"SeqlenOne", good_with("  tokens: /c.safetensors", "  tokens: /c\n  seqlen: 1"),
       "11: calibration.seqlen: 1 is not from 2 to"},
      {"NoSamples", good_with("  tokens: /c.safetensors", "  tokens: /c\n  samples: 0"),
       "11: calibration.samples: 0 is not from 1 to"},
      {"TextAndTokens", good_with("  text: [/e.txt]", "  text: [/e.txt]\n  tokens: /e"),
       "12: evaluation.text: text and tokens are given: only one of them can be"},
      {"NeitherTextNorTokens", good_with("  tokens: /c.safetensors", "  samples: 8"),
       "9: calibration.text: one of text and tokens must be given"},
      {"SeqlenOfTheCalibrationsWindows", good_with("  text: [/e.txt]", "  seqlen: 8"),
       "12: evaluation.seqlen: needs evaluation.text or tokens"},
      {"NoWindowsOfAnEvaluation", good_with("  text: [/e.txt]", "  samples: 0"),
       "12: evaluation.samples: 0 is not from 1 to"},
      {"EmptyTextName", good_with("[/e.txt]", "['']"), "12: evaluation.text: a file name in the"},
      {"ManyEpochs", good_with("resources:", "heal:\n  epochs: 101\nresources:"),
       "14: heal.epochs: 101 is not from 0 to 100"},
      {"NoLearning", good_with("resources:", "heal:\n  learning_rate: 0\nresources:"),
       "14: heal.learning_rate: 0 is not above 0 and at most 0.1"},
      {"FastLearning", good_with("resources:", "heal:\n  learning_rate: 1\nresources:"),
       "14: heal.learning_rate: 1 is not above 0 and at most 0.1"},
      {"NoWindowsThatHeal", good_with("resources:", "heal:\n  samples: 0\nresources:"),
       "14: heal.samples: 0 is not from 1 to"},
      {"WindowsThatHealAndEvaluate",
       good_with("evaluation:\n  text: [/e.txt]", "evaluation: {}\nheal:\n  samples: 8"),
       "13: heal.samples: needs evaluation.text or tokens"},
      {"NoRanks", good_with("ranks: 8", "ranks: 0"),
       "14: resources.ranks: 0 is not from 1 to 4096"},
      {"TooManyRanks", good_with("ranks: 8", "ranks: 4097"), "14: resources.ranks: 4097 is not"},
      {"NoTimeout", good_with("ranks: 8", "timeout_s: 0"),
       "14: resources.timeout_s: 0 is not from"},
      {"LongTimeout", good_with("ranks: 8", "timeout_s: 86401"),
       "14: resources.timeout_s: 86401 is not from 1 to 86400"},
  };
}

std::string error_of(const std::string& text) {
  try {
    parse_job(text, "job.yaml", "/base");
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

class BadJobs : public testing::TestWithParam<BadJob> {};

TEST_P(BadJobs, AreRefusedWithFileLineAndKey) {
  EXPECT_THAT(error_of(GetParam().text), testing::StartsWith("job.yaml:" + GetParam().message));
}

TEST_P(BadJobs, HaveNoOtherFault) {
  EXPECT_THAT(error_of(GetParam().text), testing::Not(testing::HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(Job, BadJobs, testing::ValuesIn(bad_jobs()),
                         [](const auto& param) { return param.param.name; });

TEST(BadJobFile, TheUnspoiltFileIsAccepted) { EXPECT_EQ(error_of(kGood), "was accepted"); }

TEST(BadJobFile, EveryFaultIsListedInTheOrderOfTheFile) {
  EXPECT_EQ(error_of("modl: 1\nmethod:\n  sparsity: x\n  head: round\nname: [1]\n"),
            "job.yaml:1: modl: unknown key, did you mean 'model'?\n"
            "job.yaml:3: method.sparsity: 'x' is not a finite number\n"
            "job.yaml:4: method.head: 'round' is not one of dense, sliced\n"
            "job.yaml:5: name: must be one value, not a list");
}

TEST(BadJobFile, AFloodOfFaultsIsCutShort) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(error_of(text), testing::EndsWith("job.yaml: and 950 more faults"));
}

TEST(BadJobFile, AliasesOfAliasesDoNotExplode) {
  std::ostringstream text;
  text << "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    text << "a" << i << ": &a" << i << " [*a" << i - 1 << ", *a" << i - 1 << "]\n";
  }
  text << "name: *a39\n";
  EXPECT_THAT(error_of(text.str()), testing::HasSubstr("name: must be one value"));
}

TEST(BadJobFile, AnAliasOfItselfIsRefused) {
  EXPECT_THAT(error_of("method: &m {method: *m}\n"), testing::HasSubstr("unknown key"));
}

TEST(BadJobFile, MoreThanAMebibyteIsRefused) {
  const TemporaryDirectory dir;
  const auto path = dir.write("job.yaml", kGood + std::string(1 << 20, '#'));
  EXPECT_THROW(
      {
        try {
          open_job_file(path);
        } catch (const InputError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("is larger than 1048576 bytes"));
          throw;
        }
      },
      InputError);
}

TEST(BadJobFile, EveryTruncationIsRefusedOrAcceptedButNeverCrashes) {
  const std::string good = kGood;
  for (std::size_t length = 0; length < good.size(); ++length) {
    for (const char* tail : {"", "{", "[", "\"", "&a", "*", "!", "\t", "|", "? "}) {
      error_of(good.substr(0, length) + tail);
    }
  }
}

}  // namespace
}  // namespace dotresize
