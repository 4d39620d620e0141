#include "job/plan/check_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/errors.h"
#include "base/files/partial_path.h"
#include "job/plan/resolve/resolve_job.h"
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
            "2,000 bytes of text cannot be 8 windows of 256 tokens: give more text, fewer samples "
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

TEST_F(CheckFiles, HealingMayNeedMoreWindowsThanCalibration) {
  EXPECT_TRUE(findings("tokens: t.safetensors", "heal: {samples: 16}").empty());
  const auto counted = findings("tokens: t.safetensors", "heal: {samples: 17}");
  ASSERT_EQ(counted.size(), 1u);
  EXPECT_TRUE(counted[0].fatal);
  EXPECT_THAT(counted[0].what, HasSubstr("and 17 are needed (heal.samples): give more tokens"));
  const auto measured = findings("text: [c.txt]", "heal: {samples: 100000}");
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_TRUE(measured[0].fatal);
  EXPECT_THAT(measured[0].what,
              HasSubstr("cannot be 100,000 windows of 256 tokens (heal.samples): give more text"));
}

TEST_F(CheckFiles, ATextThatThisUserCannotReadIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(dir_ / "c.txt", std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  const auto found = findings();
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].fatal);
  EXPECT_EQ(found[0].what, (dir_ / "c.txt").string() + ": cannot open: Permission denied");
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

/// Returns the fault of `name` without and with overwrite, if they are the same.
std::string fault_of(const TemporaryDirectory& dir, const std::string& name) {
  const auto with = [&](bool overwrite) {
    const auto fault = output_fault(dir / name, overwrite, dir / name);
    return fault ? fault->what : "";
  };
  EXPECT_EQ(with(false), with(true));
  return with(true);
}

TEST_F(CheckFiles, AnOutputThatNoFlagCanReplaceIsRefusedWithWhatToDo) {
  std::filesystem::create_directory(dir_ / "empty");
  EXPECT_THAT(fault_of(dir_, "empty"), HasSubstr("exists and is empty: remove it (rmdir "));
  std::filesystem::create_symlink("nowhere", dir_ / "dangling");
  EXPECT_THAT(fault_of(dir_, "dangling"), HasSubstr("is a link to nothing: remove it"));
  std::filesystem::create_symlink("m", dir_ / "link");
  EXPECT_THAT(fault_of(dir_, "link"), HasSubstr("is a link: remove it"));
  const auto mounted = output_fault("/proc", true, "/proc");
  ASSERT_TRUE(mounted);
  EXPECT_EQ(mounted->what,
            "/proc exists and is a mount point, which cannot be replaced: give a directory in it, "
            "such as /proc/model");
}

TEST_F(CheckFiles, AnOutputNeedsAFolderInWhichItCanBeMade) {
  EXPECT_EQ(fault_of(dir_, "missing/deep/out/"), "");
  EXPECT_THAT(fault_of(dir_, "c.txt/out"), testing::EndsWith("c.txt is not a directory"));
  std::filesystem::create_symlink("nowhere", dir_ / "dangling");
  EXPECT_THAT(fault_of(dir_, "dangling/out"), testing::EndsWith("dangling is a link to nothing"));
}

TEST_F(CheckFiles, AFolderOfOthersIsSeenBeforeTheWork) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::filesystem::create_directory(dir_ / "theirs");
  std::filesystem::create_directories(dir_ / "shared" / "model" / kReportDirectory);
  dir_.write("shared/model/dotresize/report.json", "{}");
  std::filesystem::permissions(dir_ / "shared",
                               std::filesystem::perms::all | std::filesystem::perms::sticky_bit);
  std::filesystem::permissions(dir_.path(), std::filesystem::perms(0755));
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::seteuid(kNobody), 0);
  const auto theirs = output_fault(dir_ / "theirs/out", false, "shown/out");
  const auto made = output_fault(dir_ / "shared/out", false, "shown/out");
  const auto sticky = output_fault(dir_ / "shared/model", true, "shown/model");
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(theirs && sticky);
  EXPECT_EQ(theirs->what, "shown: Permission denied, so no output can be made there");
  EXPECT_FALSE(made);
  EXPECT_THAT(sticky->what, HasSubstr("shown/model belongs to another user"));
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
