#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/errors.h"
#include "job/spec/job_file.h"

namespace dotresize {
namespace {

using testing::HasSubstr;
using Changes = std::vector<std::string>;

constexpr char kJob[] = R"(name: docs
model: {path: m}
output: {path: o}
method: {name: pca_dotresize, sparsity: 0.2, lambda: 0.5}
calibration: {text: [c.txt], samples: 8}
)";

v1::JobSpec changed(const Changes& changes) {
  return parse_job(kJob, "job.yaml", "/base", changes).spec;
}

std::string error_of_changes(const Changes& changes) {
  try {
    changed(changes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(JobChanges, AreTypedAsYaml) {
  const v1::JobSpec spec =
      changed({"method.lambda=0.25", "method.name=magnitude", "output.overwrite=true",
               "calibration.text=[/a.txt, /b.txt]", "name=70", "resources.ranks=4"});
  EXPECT_EQ(spec.method().lambda(), 0.25);
  EXPECT_EQ(spec.method().name(), v1::Method::magnitude);
  EXPECT_TRUE(spec.output().overwrite());
  EXPECT_THAT(spec.calibration().text(), testing::ElementsAre("/a.txt", "/b.txt"));
  EXPECT_EQ(spec.calibration().samples(), 8u);
  EXPECT_EQ(spec.name(), "70");
  EXPECT_EQ(spec.resources().ranks(), 4u);
}

TEST(JobChanges, ATargetTakesThePlaceOfTheOther) {
  const v1::JobSpec spec = changed({"method.size=0.7"});
  EXPECT_EQ(spec.method().size(), 0.7);
  EXPECT_FALSE(spec.method().has_sparsity());
  EXPECT_EQ(spec.method().lambda(), 0.5);
  EXPECT_EQ(changed({"calibration.tokens=/t"}).calibration().text_size(), 0);
}

TEST(JobChanges, NullTakesAKeyAway) {
  EXPECT_FALSE(changed({"method.lambda=null"}).method().has_lambda());
  EXPECT_FALSE(changed({"method.lambda="}).method().has_lambda());
  EXPECT_THAT(error_of_changes({"method.sparsity=null"}),
              HasSubstr("--set method.sparsity=null: method.sparsity: one of sparsity, width"));
}

TEST(JobChanges, TheLastOneCounts) {
  EXPECT_EQ(changed({"method.size=0.7", "method.width=64"}).method().width(), 64u);
  EXPECT_FALSE(changed({"method.size=0.7", "method.width=64"}).method().has_size());
}

TEST(JobChanges, ADefaultCanBeSet) {
  EXPECT_EQ(parse_job("name: a\nmodel: {path: m}\noutput: {path: o}\n"
                      "method: {name: magnitude, width: 8}\ncalibration: {tokens: t}\n",
                      "job.yaml", "/base", {"method.name=pca_dotresize"})
                .spec.method()
                .name(),
            v1::Method::pca_dotresize);
}

TEST(JobChanges, PathsAreRelativeToTheWorkingDirectory) {
  const v1::JobSpec spec = changed({"output.path=there"});
  EXPECT_EQ(spec.output().path(), (std::filesystem::current_path() / "there").string());
  EXPECT_EQ(spec.model().path(), "/base/m");
}

TEST(JobChanges, FaultsNameTheChange) {
  EXPECT_EQ(error_of_changes({"method.sise=0.7"}),
            "--set method.sise=0.7: method.sise: unknown key, did you mean 'size'?");
  EXPECT_EQ(error_of_changes({"method.size=big"}),
            "--set method.size=big: method.size: 'big' is not a finite number");
  EXPECT_EQ(error_of_changes({"method.size"}),
            "--set method.size: is not KEY=VALUE, as in method.size=0.7");
  EXPECT_THAT(error_of_changes({"name=[a"}), HasSubstr("name: the value is not valid YAML"));
  EXPECT_THAT(error_of_changes({"method.size=70"}),
              HasSubstr("--set method.size=70: method.size: 70 is not below 1"));
  EXPECT_THAT(error_of_changes({"nam=a", "mehtod.size=1"}), HasSubstr("\n"));
}

TEST(JobChanges, OddKeysAreRefusedAndNeverCrash) {
  for (const char* change :
       {"=1", ".=1", "method.=1", "method..size=1", "method.size.x=1", "name.first=a",
        "calibration.text.0=a", "method=1", "a=\xff", "\n=1"}) {
    EXPECT_THAT(error_of_changes({change}), testing::StartsWith("--set ")) << change;
  }
}

TEST(JobFile, KnowsWhereItsKeysStand) {
  const JobFile job = parse_job(
      "name: a\nmodel: {path: m}\noutput: {path: o}\nmethod:\n  width: 8\n"
      "calibration: {tokens: t}\n",
      "job.yaml", "/base", {"output.path=/x"});
  EXPECT_EQ(job.place_of("method.width"), "job.yaml:5");
  EXPECT_EQ(job.place_of("method.lambda"), "job.yaml:4");
  EXPECT_EQ(job.place_of("output.path"), "--set output.path=/x");
  EXPECT_EQ(job.place_of("resources.ranks"), "job.yaml:1");
}

}  // namespace
}  // namespace dotresize
