#include <gmock/gmock.h>

#include "base/process/child_process.h"

namespace dotresize {
namespace {

using testing::IsSupersetOf;

TEST(Mpirun, ProgramAndArgumentsComeLastAndUnchanged) {
  const auto command = launch_command(8, {}, {"/bin/worker", "a job.yaml", ""});
  EXPECT_EQ(command.front(), "mpirun");
  const std::vector<std::string> tail(command.end() - 5, command.end());
  EXPECT_THAT(tail, testing::ElementsAre("-np", "8", "/bin/worker", "a job.yaml", ""));
}

TEST(Mpirun, RanksMayOutnumberCores) {
  EXPECT_THAT(launch_command(3, {}, {"w"}), IsSupersetOf({"--oversubscribe", "--bind-to", "none"}));
}

TEST(Mpirun, IsNotNeededForOneRank) {
  EXPECT_THAT(
      launch_command(1, {}, {"/bin/worker", "job.yaml"}),
      testing::ElementsAre("env", testing::_, testing::_, testing::_, "/bin/worker", "job.yaml"));
}

}  // namespace
}  // namespace dotresize
