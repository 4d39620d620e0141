#include "base/process/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/errors.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Sets or unsets an environment variable until the end of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const {
    value != nullptr ? ::setenv(name_, value, 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

TEST(SeesGpus, UnlessThereIsNoDriverOrTheyAreHidden) {
  const fs::path driver = "/dev/null";
  const auto with = [&](const char* visible) {
    const Variable variable("CUDA_VISIBLE_DEVICES", visible);
    return sees_gpus(driver);
  };
  EXPECT_TRUE(with(nullptr));
  EXPECT_TRUE(with("0"));
  EXPECT_FALSE(with("")) << "as a server starts an attempt that has none";
  EXPECT_FALSE(sees_gpus("/no/such/driver"));
}

std::string cache_with(const char* xdg_cache_home, const char* home) {
  const Variable cache("XDG_CACHE_HOME", xdg_cache_home);
  const Variable user("HOME", home);
  return user_cache_dir();
}

TEST(Environment, ThreadsSpinForALimitedTimeUnlessTheUserHasDecided) {
  const auto spin_count_with = [](const char* policy, const char* spin_count) {
    const Variable policy_variable("OMP_WAIT_POLICY", policy);
    const Variable spin_variable("GOMP_SPINCOUNT", spin_count);
    limit_spinning();
    return environment_variable("GOMP_SPINCOUNT");
  };
  EXPECT_EQ(spin_count_with(nullptr, nullptr), "1000");
  EXPECT_EQ(spin_count_with("active", nullptr), "");
  EXPECT_EQ(spin_count_with(nullptr, "7"), "7");
}

TEST(UserCache, IsNamedByTheEnvironment) {
  EXPECT_EQ(cache_with("/fast", "/home/u"), "/fast/dotresize");
  EXPECT_EQ(cache_with(nullptr, "/home/u"), "/home/u/.cache/dotresize");
}

TEST(UserCache, TakesAnEmptyVariableAsNotSet) {
  EXPECT_EQ(cache_with("", "/home/u"), "/home/u/.cache/dotresize");
  EXPECT_EQ(cache_with("", ""), "");
}

TEST(UserCache, IsEmptyIfTheEnvironmentSaysNothing) { EXPECT_EQ(cache_with(nullptr, nullptr), ""); }

TEST(WorkerProgram, IsTheOneOfTheEnvironment) {
  const Variable worker("DOTRESIZE_WORKER", "/bin/sh");
  EXPECT_EQ(worker_program(), "/bin/sh");
}

TEST(WorkerProgram, SaysWhatIsMissing) {
  const Variable worker("DOTRESIZE_WORKER", "/no/such/worker");
  EXPECT_THAT([] { worker_program(); }, testing::ThrowsMessage<ProgramMissing>(testing::StartsWith(
                                            "/no/such/worker: No such file or directory")));
}

TEST(WorkerProgram, LiesBesideTheProgramUnlessItIsNamed) {
  const Variable none("DOTRESIZE_WORKER", "");
  const fs::path beside = folder_of_this_program() / "dotresize-worker";
  if (fs::exists(beside)) {
    EXPECT_EQ(worker_program(), beside);
  } else {
    EXPECT_THAT([] { worker_program(); }, testing::ThrowsMessage<ProgramMissing>(
                                              testing::StartsWith(beside.string() + ": ")));
  }
}

}  // namespace
}  // namespace dotresize
