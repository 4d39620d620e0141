#include "base/process/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/process/program.h"

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

/// Sets each variable to "x", leaves the parent's step, and returns the variables that are left.
std::vector<std::string> left_of(const std::vector<const char*>& names) {
  std::vector<std::unique_ptr<Variable>> set;
  for (const char* name : names) set.push_back(std::make_unique<Variable>(name, "x"));
  leave_parent_step();
  std::vector<std::string> left;
  for (const char* name : names) {
    if (std::getenv(name) != nullptr) left.emplace_back(name);
  }
  return left;
}

TEST(ParentStep, WhatDescribesItIsDroppedAndTuningStays) {
  EXPECT_THAT(
      left_of({"OMPI_COMM_WORLD_RANK", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_orte_hnp_uri",
               "OMPI_MCA_ess", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_pmix", "PMIX_NAMESPACE",
               "PMIX_RANK", "PMI_RANK", "ORTE_SCHIZO_DETECTION", "PRTE_LAUNCHED", "OMPI_MCA_btl",
               "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "PATHOLOGY"}),
      testing::ElementsAre("OMPI_MCA_btl", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds", "PATHOLOGY"));
}

TEST(ParentStep, WithoutOneAllParametersOfMpiAreTheUsers) {
  EXPECT_THAT(left_of({"OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_pmix", "SLURM_JOBID"}),
              testing::ElementsAre("OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_pmix"));
}

TEST(ParentStep, RanksOnThisMachineDoNotSeeTheAllocationOfSlurm) {
  EXPECT_THAT(left_of({"SLURM_JOBID", "SLURM_NODELIST", "SLURM_STEP_NUM_TASKS", "SLURM_CONF"}),
              testing::ElementsAre("SLURM_CONF"));
}

TEST(ParentStep, AHomeThatIsSetStays) {
  const Variable home("HOME", "/home/u");
  leave_parent_step();
  EXPECT_EQ(environment_variable("HOME"), "/home/u");
}

TEST(Memory, ALimitOfTheProcessIsKnown) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit lower = {rlim_t{1} << 40, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &lower), 0);
  EXPECT_EQ(process_memory_limit(), int64_t{1} << 40);
  ::setrlimit(RLIMIT_AS, &before);
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
