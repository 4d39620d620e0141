#include "job/plan/check_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "job/plan/resolve_job.h"
#include "job/spec/job_file.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class CheckFiles : public testing::Test {
 protected:
  CheckFiles() {
    std::filesystem::create_directory(dir_ / "m");
    dir_.write("m/tokenizer.json", "{}");
    dir_.write("t.safetensors", token_file({16, 256}));
    write_text(100'000);
  }

  void write_text(std::size_t bytes) { dir_.write("c.txt", std::string(bytes, 'x')); }

  /// Returns the findings for a job with 8 windows of 256 tokens.
  std::vector<FileFinding> findings(const std::string& source = "text: [c.txt]",
                                    const std::string& evaluation = "") {
    const v1::JobSpec spec =
        parse_job(
            "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
            "calibration: {" +
                source + ", samples: 8, seqlen: 256}\n" + evaluation,
            "job.yaml", dir_.path())
            .spec;
    return check_inputs(resolve_job(spec, config_), config_);
  }

  TemporaryDirectory dir_;
  ModelConfig config_ = small_llama();
};

TEST_F(CheckFiles, ATextThatIsLongEnoughIsNotSpokenOf) { EXPECT_TRUE(findings().empty()); }

TEST_F(CheckFiles, FewerBytesThanTokensAreFatal) {
  write_text(2000);
  const auto found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].fatal);
  EXPECT_EQ(found[0].key, "calibration.text");
  EXPECT_EQ(found[0].what,
            "2,002 bytes of text cannot be 8 windows of 256 tokens: give more text, fewer samples "
            "or a smaller seqlen");
}

TEST_F(CheckFiles, ATextThatMayBeTooShortIsAWarning) {
  write_text(4000);
  const auto found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].fatal);
  EXPECT_THAT(found[0].what, HasSubstr("about 1,000 tokens, may be less than 8 windows"));
}

TEST_F(CheckFiles, OfAnEvaluationOneWindowIsEnough) {
  dir_.write("e.txt", std::string(100, 'x'));
  const auto found = findings("tokens: t.safetensors", "evaluation: {text: [e.txt], seqlen: 256}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "evaluation.text");
  EXPECT_THAT(found[0].what, HasSubstr("1 window of 256 tokens"));
}

TEST_F(CheckFiles, WindowsOfTokenFilesAreCounted) {
  EXPECT_TRUE(findings("tokens: t.safetensors", "evaluation: {samples: 8}").empty());
  const auto found = findings("tokens: t.safetensors", "evaluation: {samples: 9}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].fatal);
  EXPECT_EQ(found[0].key, "calibration.tokens");
  EXPECT_EQ(found[0].what,
            "4,096 tokens are 16 windows of seqlen 256, and 17 are needed, 9 of them for the "
            "evaluation: give more tokens, fewer samples or a smaller seqlen");
  dir_.write("e.safetensors", token_file({255}));
  const auto of_evaluation = findings("text: [c.txt]", "evaluation: {tokens: e.safetensors}");
  ASSERT_EQ(of_evaluation.size(), 1u);
  EXPECT_EQ(of_evaluation[0].key, "evaluation.tokens");
  EXPECT_THAT(of_evaluation[0].what, HasSubstr("255 tokens are 0 windows of seqlen 256, and 1 is"));
}

TEST_F(CheckFiles, TheLengthOfATableIsAnEstimate) {
  dir_.write("c.jsonl", std::string(2000, 'x'));
  const auto found = findings("text: [c.jsonl]");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].fatal);
  dir_.write("c.parquet", std::string(3000, 'x'));
  EXPECT_TRUE(findings("text: [c.parquet]").empty());
}

TEST_F(CheckFiles, ATokenizerOfOtherFilesComesWithTheWayToConvertIt) {
  std::filesystem::rename(dir_ / "m/tokenizer.json", dir_ / "m/vocab.json");
  EXPECT_THAT(findings().at(0).what, Not(HasSubstr("AutoTokenizer")));
  dir_.write("m/merges.txt", "");
  EXPECT_THAT(findings().at(0).what,
              AllOf(HasSubstr("has no tokenizer.json, which text needs; "),
                    HasSubstr("python -c \"from transformers import AutoTokenizer as T; "
                              "T.from_pretrained('" +
                              (dir_ / "m").string() + "').save_pretrained('")));
}

TEST_F(CheckFiles, TextNeedsATokenizerAndTokensDoNot) {
  std::filesystem::remove(dir_ / "m/tokenizer.json");
  const auto found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].fatal);
  EXPECT_THAT(found[0].key + ": " + found[0].what,
              AllOf(HasSubstr("model.path: '"), HasSubstr("has no tokenizer.json")));
  EXPECT_TRUE(findings("tokens: t.safetensors").empty());
}

TEST_F(CheckFiles, AnOutputThatExistsNeedsOverwriteAndMustBeOurs) {
  EXPECT_FALSE(output_fault(dir_ / "o", false, "shown"));
  for (const bool overwrite : {false, true}) {
    const auto foreign = output_fault(dir_ / "m", overwrite, "shown");
    ASSERT_TRUE(foreign);
    EXPECT_EQ(foreign->foreign, overwrite);
    EXPECT_THAT(foreign->what, AllOf(HasSubstr("shown exists and is not a model made by dotresize"),
                                     HasSubstr("remove it or choose another path"),
                                     Not(HasSubstr("output.overwrite"))));
  }
  std::filesystem::create_directory(dir_ / "m/dotresize");
  dir_.write("m/dotresize/report.json", "{}");
  const auto exists = output_fault(dir_ / "m", false, "shown");
  ASSERT_TRUE(exists);
  EXPECT_FALSE(exists->foreign);
  EXPECT_EQ(exists->what,
            "shown exists: remove it, choose another path, or set output.overwrite: true");
  EXPECT_FALSE(output_fault(dir_ / "m", true, "shown"));
}

TEST_F(CheckFiles, AnEmptyDirectoryMakesRoomAndALinkToNothingDoesNot) {
  std::filesystem::create_directory(dir_ / "empty");
  std::filesystem::create_symlink(dir_ / "nowhere", dir_ / "dangling");
  for (const bool overwrite : {false, true}) {
    EXPECT_FALSE(output_fault(dir_ / "empty", overwrite, "shown"));
    const auto link = output_fault(dir_ / "dangling", overwrite, "shown");
    ASSERT_TRUE(link);
    EXPECT_EQ(link->what, "shown is a link to nothing: remove the link or choose another path");
    const auto mounted = output_fault("/proc", overwrite, "shown");
    ASSERT_TRUE(mounted);
    EXPECT_EQ(mounted->what,
              "shown is a mount point, which no output can replace: choose a path in it, such as "
              "shown/output");
  }
}

TEST_F(CheckFiles, ANameOfTheHubComesWithTheWayToFetchIt) {
  EXPECT_NO_THROW(require_model_directory(dir_ / "m"));
  EXPECT_THAT([&] { require_model_directory(dir_ / "meta-llama/Llama-3.2-1B"); },
              ThrowsMessage<InputError>(
                  AllOf(HasSubstr("model.path: '"), HasSubstr("is not a local directory"),
                        HasSubstr("hf download meta-llama/Llama-3.2-1B --local-dir "))));
  EXPECT_THAT([&] { require_model_directory("hf://meta-llama/Llama-3.2-1B"); },
              ThrowsMessage<InputError>(
                  HasSubstr("hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B")));
  EXPECT_THAT([&] { require_model_directory(dir_ / "other"); },
              ThrowsMessage<InputError>(Not(HasSubstr("hf download"))));
}

}  // namespace
}  // namespace dotresize
