#include "server/access/path_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/common/api_error.h"
#include "tests/temporary_directory.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

class PathPolicyTest : public ::testing::Test {
 protected:
  PathPolicyTest() {
    spec_.mutable_model()->set_path(at("root/model"));
    spec_.mutable_output()->set_path(at("root/out"));
    spec_.mutable_calibration()->add_text(at("root/text"));
  }
  std::string at(const std::string& name) const { return (home_ / name).string(); }
  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(at(target), at(name));
  }
  grpc::StatusCode code(const PathPolicy& policy) const {
    try {
      policy.resolve(spec_);
      return grpc::StatusCode::OK;
    } catch (const ApiError& error) {
      return error.code;
    }
  }

  static fs::path with_directories(const fs::path& home) {
    for (const char* dir : {"state", "root/model", "outside"}) fs::create_directories(home / dir);
    return fs::canonical(home);
  }

  TemporaryDirectory home_;
  fs::path home_path_ = with_directories(home_.path());
  v1::JobSpec spec_;
  PathPolicy anywhere_{{}, home_ / "state"};
  PathPolicy rooted_{{home_ / "root"}, home_ / "state"};
};

TEST_F(PathPolicyTest, PathsWithinARootArePassedOnWithoutLinks) {
  link("root", "alias");
  spec_.mutable_output()->set_path(at("alias/out/"));
  const v1::JobSpec resolved = rooted_.resolve(spec_);
  EXPECT_EQ(resolved.output().path(), (home_path_ / "root/out").string());
  EXPECT_EQ(resolved.model().path(), (home_path_ / "root/model").string());
}

TEST_F(PathPolicyTest, EveryPathOutsideTheRootsIsDenied) {
  const v1::JobSpec good = spec_;
  spec_.mutable_model()->set_path(at("outside"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(code(anywhere_), grpc::StatusCode::OK);
  spec_ = good;
  spec_.mutable_output()->set_path(at("root/../outside/out"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
  spec_.mutable_output()->set_path(at("root"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED) << "root.partial is outside";
  spec_ = good;
  spec_.mutable_calibration()->add_text("/etc/passwd");
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
  spec_ = good;
  spec_.mutable_evaluation()->set_tokens(at("rootless"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(PathPolicyTest, PathsThatCannotBeLookedUpAreTheCallersFault) {
  const v1::JobSpec good = spec_;
  const std::string longest(255, 'n');
  spec_.mutable_model()->set_path(at("root/" + longest + "n"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::INVALID_ARGUMENT);
  link("root/circle", "root/circle");
  spec_.mutable_model()->set_path(at("root/circle/model"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::INVALID_ARGUMENT);
  spec_ = good;
  spec_.mutable_output()->set_path(at("root/" + longest));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::INVALID_ARGUMENT) << "no room for .replaced";
  spec_.mutable_output()->set_path(at("root/" + longest.substr(std::string(".replaced").size())));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::OK);
}

TEST_F(PathPolicyTest, LinkOfAModelThatLeadsInACircleIsTheCallersFault) {
  link("root/model/circle", "root/model/circle");
  EXPECT_EQ(code(anywhere_), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(rooted_), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PathPolicyTest, StatisticsThatAreSavedAreWrittenAsAnOutputIs) {
  v1::Statistics& statistics = *spec_.mutable_calibration()->mutable_statistics();
  statistics.set_save(at("root"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED) << "root.partial is outside";
  statistics.set_save(at("root/statistics/"));
  const v1::JobSpec resolved = rooted_.resolve(spec_);
  EXPECT_EQ(resolved.calibration().statistics().save(), (home_path_ / "root/statistics").string());
  std::vector<std::string> written;
  for (const PathClaim& claim : claims_of(resolved)) {
    if (claim.writes) written.push_back(claim.path);
  }
  EXPECT_THAT(written, testing::Contains((home_path_ / "root/statistics.partial").string()));
  statistics.set_save(at("root/model/statistics"));
  EXPECT_EQ(code(anywhere_), grpc::StatusCode::INVALID_ARGUMENT);
  statistics.clear_save();
  statistics.set_use(at("outside"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(PathPolicyTest, LinkThatLeadsOutOfTheRootsIsDenied) {
  link("outside", "root/link");
  spec_.mutable_output()->set_path(at("root/link/out"));
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED);
  spec_.mutable_output()->set_path(at("root/out"));
  link("outside/config.json", "root/model/config.json");
  EXPECT_EQ(code(rooted_), grpc::StatusCode::PERMISSION_DENIED) << "a file of the model";
}

TEST_F(PathPolicyTest, OutputNeverCollidesWithStateOrInputs) {
  for (const char* output : {"state/out", "root/model/out", "root/text", "root"}) {
    spec_.mutable_output()->set_path(at(output));
    EXPECT_EQ(code(anywhere_), grpc::StatusCode::INVALID_ARGUMENT) << output;
  }
  spec_.mutable_output()->set_path(at("root/a"));
  spec_.mutable_calibration()->set_text(0, at("root/a.partial/text"));
  EXPECT_EQ(code(anywhere_), grpc::StatusCode::INVALID_ARGUMENT);
  spec_.mutable_calibration()->set_text(0, at("state/jobs.sqlite"));
  EXPECT_EQ(code(anywhere_), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(RemotePolicyTest, CacheMayBeALinkToADirectoryOfAnotherDisk) {
  const TemporaryDirectory home;
  fs::create_directory(home / "disk");
  fs::create_symlink(home / "disk", home / "remote");
  const RemotePolicy policy({"s3://bucket/"}, home.path());
  EXPECT_EQ(policy.cache().directory, fs::canonical(home / "disk"));
  EXPECT_EQ(static_cast<uintmax_t>(policy.cache().size), fs::space(home / "disk").capacity / 4 * 3);
}

TEST(RemotePolicyTest, CacheIsMadeForThoseAloneWhoMayNameUrls) {
  const TemporaryDirectory home;
  EXPECT_FALSE(RemotePolicy({}, home.path()).allows_any());
  EXPECT_FALSE(fs::exists(home / "remote"));
  const RemotePolicy policy({"hf://org/"}, home.path());
  EXPECT_EQ(fs::status(home / "remote").permissions(), fs::perms::owner_all);
}

}  // namespace
}  // namespace dotresize
