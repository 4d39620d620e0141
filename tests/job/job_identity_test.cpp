#include "job/report/job_identity.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/text/sha256.h"
#include "job/report/report.h"
#include "job/spec/job_file.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

class JobIdentityTest : public testing::Test {
 protected:
  JobIdentityTest() {
    fs::create_directory(dir_ / "m");
    dir_.write("m/config.json", "{}");
    dir_.write("m/model.safetensors", "weights");
    dir_.write("c.txt", "text");
  }

  v1::JobSpec spec() const {
    return parse_job(
               "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
               "calibration: {text: [c.txt], samples: 8, seqlen: 256}\n",
               "job.yaml", dir_.path())
        .spec;
  }
  /// Returns true if the job is the same after `change` of its spec.
  bool is_same_after(const std::function<void(v1::JobSpec&)>& change) const {
    v1::JobSpec changed = spec();
    change(changed);
    return job_identity(changed) == identity_before_;
  }
  /// Writes a complete output of the job.
  void put_output(const std::string& identity) const {
    fs::create_directories(dir_ / "o/dotresize");
    const std::string model = R"({"parameters": 1, "bytes": 1})";
    dir_.write("o/dotresize/report.json",
               R"({"schema_version": )" + std::to_string(kReportVersion) +
                   R"(, "method": {"name": "m", "width": 8}, "wall_time_s": 1, "dense": )" + model +
                   R"(, "compressed": )" + model + R"(, "fingerprints": {"job": ")" + identity +
                   "\"}}");
    dir_.write("o/model", "weights");
    dir_.write("o/SHA256SUMS", sha256_of_bytes("", 0) + "  model\n");
  }

  TemporaryDirectory dir_;
  std::string identity_before_ = {};
};

TEST_F(JobIdentityTest, DependsOnTheSpecButNotOnThePlaceOfTheOutput) {
  identity_before_ = job_identity(spec());
  EXPECT_TRUE(is_same_after([](v1::JobSpec&) {}));
  EXPECT_TRUE(is_same_after([](v1::JobSpec& job) { job.mutable_output()->set_path("/other"); }));
  EXPECT_TRUE(is_same_after([](v1::JobSpec& job) { job.mutable_output()->set_overwrite(true); }));
  EXPECT_FALSE(is_same_after([](v1::JobSpec& job) { job.mutable_method()->set_sparsity(0.3); }));
  EXPECT_TRUE(is_same_after([](v1::JobSpec& job) { job.mutable_resources()->set_ranks(2); }))
      << "an interrupted run goes on with any number of ranks";
  EXPECT_FALSE(is_same_after(
      [](v1::JobSpec& job) { job.mutable_resources()->set_device(v1::Resources::cuda); }));
}

TEST_F(JobIdentityTest, DependsOnWhatTheJobReads) {
  for (const char* file : {"m/config.json", "m/model.safetensors", "c.txt"}) {
    identity_before_ = job_identity(spec());
    fs::last_write_time(dir_ / file, fs::last_write_time(dir_ / file) + std::chrono::seconds(1));
    EXPECT_FALSE(is_same_after([](v1::JobSpec&) {})) << file;
    // Another content of the same size, whose time somebody has set.
    identity_before_ = job_identity(spec());
    const auto time = fs::last_write_time(dir_ / file);
    std::string content = read_whole_file(dir_ / file, 1 << 10);
    content.back() ^= 1;
    dir_.write(file, content);
    fs::last_write_time(dir_ / file, time);
    EXPECT_FALSE(is_same_after([](v1::JobSpec&) {})) << file;
  }
  identity_before_ = job_identity(spec());
  fs::remove(dir_ / "c.txt");
  EXPECT_FALSE(is_same_after([](v1::JobSpec&) {}));
}

TEST_F(JobIdentityTest, AnOutputOfTheJobIsOneThatIsComplete) {
  const std::string identity = job_identity(spec());
  EXPECT_FALSE(is_output_of(dir_ / "o", identity));
  put_output(identity);
  EXPECT_TRUE(is_output_of(dir_ / "o", identity));
  EXPECT_FALSE(is_output_of(dir_ / "o", job_identity({})));
  fs::remove(dir_ / "o/model");
  EXPECT_FALSE(is_output_of(dir_ / "o", identity)) << "a file of SHA256SUMS is missing";
  put_output(identity);
  fs::create_directory(dir_ / "o/journal");
  EXPECT_FALSE(is_output_of(dir_ / "o", identity)) << "unfinished";
  fs::remove(dir_ / "o/journal");
  dir_.write("o/dotresize/report.json", "{");
  EXPECT_FALSE(is_output_of(dir_ / "o", identity)) << "damaged";
}

}  // namespace
}  // namespace dotresize
