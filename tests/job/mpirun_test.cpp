#include <gmock/gmock.h>

#include "base/child_process.h"

namespace dotresize {
namespace {

using testing::IsSupersetOf;

TEST(Mpirun, ProgramAndArgumentsComeLastAndUnchanged) {
  const auto command = mpirun_command(8, {"/bin/worker", "a job.yaml", ""});
  EXPECT_EQ(command.front(), "mpirun");
  const std::vector<std::string> tail(command.end() - 5, command.end());
  EXPECT_THAT(tail, testing::ElementsAre("-np", "8", "/bin/worker", "a job.yaml", ""));
}

TEST(Mpirun, RanksMayOutnumberCores) {
  EXPECT_THAT(mpirun_command(3, {"w"}), IsSupersetOf({"--oversubscribe", "--bind-to", "none"}));
}

}  // namespace
}  // namespace dotresize
