#include "server/launch/outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace dotresize {
namespace {

using ::testing::HasSubstr;

constexpr char kKilled[] =
    "calibrate 3/13\n"
    "--------------------------------------------------------------------------\n"
    "mpirun noticed that process rank 3 with PID 4711 on node node-a exited on signal 9 (Killed).\n"
    "--------------------------------------------------------------------------\n";

v1::JobError report(int rank, const std::string& message) {
  v1::JobError error;
  error.set_code("RANK_FAILED");
  error.set_message(message);
  error.set_rank(rank);
  return error;
}

TEST(Outcome, KilledRankIsNamedWithSignalHostAndPhase) {
  const v1::JobError error = explain_failure({{137, 0}, std::nullopt, kKilled, "calibrate"});
  EXPECT_EQ(error.code(), "RANK_KILLED");
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(error.host(), "node-a");
  EXPECT_EQ(error.signal(), 9);
  EXPECT_EQ(error.phase(), "calibrate");
  EXPECT_EQ(error.message(), "rank 3 on node-a was killed by signal 9 (Killed) during calibrate");
}

TEST(Outcome, KilledRankWeighsMoreThanWhatItsPeersReport) {
  EXPECT_EQ(explain_failure({{137, 0}, report(1, "rank 3 is gone"), kKilled, ""}).rank(), 3);
  EXPECT_EQ(explain_failure({{134, 0}, report(3, "NaN in weights"), kKilled, ""}).message(),
            "NaN in weights");
}

TEST(Outcome, ReportedFailureWeighsMoreThanTheLog) {
  const v1::JobError error =
      explain_failure({{1, 0}, report(2, "disk full"), "dotresize-worker: error: other\n", "fold"});
  EXPECT_EQ(error.message(), "disk full");
  EXPECT_EQ(error.rank(), 2);
}

TEST(Outcome, RankErrorLineIsTakenApart) {
  const v1::JobError error =
      explain_failure({{65, 0},
                       std::nullopt,
                       "dotresize-worker: error: rank 1 on node-b in solve: tokens: 70000 is "
                       "beyond the vocabulary\n"
                       "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n",
                       "calibrate"});
  EXPECT_EQ(error.code(), "INVALID_INPUT");
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.host(), "node-b");
  EXPECT_EQ(error.phase(), "solve");
  EXPECT_EQ(error.message(), "tokens: 70000 is beyond the vocabulary");
}

TEST(Outcome, FallsBackToTheLastWordsOfTheLog) {
  const v1::JobError error =
      explain_failure({{1, 0}, std::nullopt, "an error came\nbye\n", "fold"});
  EXPECT_EQ(error.code(), "RANK_FAILED");
  EXPECT_EQ(error.rank(), -1);
  EXPECT_THAT(error.message(), HasSubstr("exit code 1: an error came"));
}

TEST(Outcome, KilledMpirunIsTriedAgain) {
  const v1::JobError error = explain_failure({{-1, 9}, std::nullopt, "an error came\n", "fold"});
  EXPECT_EQ(error.code(), "RANK_KILLED");
  EXPECT_EQ(error.rank(), -1);
  EXPECT_THAT(error.message(), HasSubstr("mpirun was killed by signal 9"));
  EXPECT_EQ(remedy_for(error), Remedy::kAgain);
  EXPECT_EQ(explain_failure({{-1, 9}, report(2, "disk full"), "", ""}).message(), "disk full");
}

TEST(Outcome, AnMpirunThatSaysNothingComesWithWhatToTry) {
  const std::string message = explain_failure({{1, 0}, std::nullopt, "", "start"}).message();
  EXPECT_THAT(message, HasSubstr("mpirun ended with exit code 1 and gave no reason"));
  EXPECT_THAT(message, HasSubstr("dotresize doctor"));
}

TEST(Outcome, OnlyRankThatASignalKillsIsNamed) {
  const v1::JobError error = explain_failure({{-1, 11}, std::nullopt, "", "calibrate", true});
  EXPECT_EQ(error.code(), "RANK_KILLED");
  EXPECT_EQ(error.rank(), 0);
  EXPECT_EQ(error.signal(), 11);
  EXPECT_THAT(explain_failure({{1, 0}, std::nullopt, "", "", true}).message(),
              HasSubstr("the worker ended with exit code 1"));
}

TEST(Outcome, JobThatHasLostAHostIsLostWhateverItsRanksReport) {
  const v1::JobError error =
      explain_failure({{1, 0},
                       to_job_error({"RANK_FAILED", 1, "", "", "the connection broke"}),
                       "ORTE has lost communication with a remote daemon.\n",
                       "",
                       false,
                       "the job under ssh"});
  EXPECT_EQ(error.code(), "LOST");
}

TEST(Outcome, MpirunOfThisMachineHasNoHostToLose) {
  const v1::JobError error =
      explain_failure({{1, 0},
                       to_job_error({"RANK_FAILED", 1, "", "", "the connection broke"}),
                       "a text with ORTE has lost communication with a remote daemon\n",
                       ""});
  EXPECT_EQ(error.code(), "RANK_FAILED");
  EXPECT_EQ(error.message(), "the connection broke");
}

TEST(Outcome, FirstTaskThatSrunNamesIsTheOneThatWasKilled) {
  const auto explain = [](const std::string& first) {
    return explain_failure({{143, 0},
                            std::nullopt,
                            "srun: error: " + first +
                                "\nsrun: launch/slurm: _step_signal: Terminating StepId=6.0\n"
                                "srun: error: node-b: tasks 0,2-3: Terminated\n",
                            "",
                            false,
                            "srun"});
  };
  const v1::JobError killed = explain("node-a: task 1: Killed");
  EXPECT_EQ(killed.code(), "RANK_KILLED");
  EXPECT_EQ(killed.rank(), 1);
  EXPECT_EQ(killed.host(), "node-a");
  EXPECT_EQ(killed.signal(), 9);
  EXPECT_EQ(explain("node-a: tasks 4-7: Segmentation fault (core dumped)").signal(), 11);
  const v1::JobError failed = explain("node-a: task 1: Exited with exit code 65");
  EXPECT_EQ(failed.code(), "RANK_FAILED");
  EXPECT_THAT(failed.message(), HasSubstr("srun ended with exit code 143"));
  const v1::JobError aborted =
      explain_failure({{137, 0},
                       std::nullopt,
                       "dotresize-worker: error: rank 2 on node-a in prepare: weights hold NaN\n"
                       "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\n"
                       "srun: error: node-a: tasks 0-2: Killed\n",
                       "",
                       false,
                       "srun"});
  EXPECT_EQ(aborted.code(), "RANK_FAILED");
  EXPECT_EQ(aborted.rank(), 2);
}

TEST(Outcome, ARankThatIsKilledBeforeMpiKnowsItIsInTheExitCodeOfMpirun) {
  const std::string log =
      "Primary job  terminated normally, but 1 process returned\n"
      "a non-zero exit code. Per user-direction, the job has been aborted.\n";
  const v1::JobError killed = explain_failure({{137, 0}, std::nullopt, log, ""});
  EXPECT_EQ(killed.code(), "RANK_KILLED");
  EXPECT_EQ(killed.signal(), 9);
  const std::string known = log + "  Process name: x\n  Exit code:    65\n";
  EXPECT_EQ(explain_failure({{137, 0}, std::nullopt, known, ""}).code(), "RANK_FAILED");
  EXPECT_EQ(explain_failure({{1, 0}, std::nullopt, log, ""}).code(), "RANK_FAILED");
}

TEST(Outcome, CommandThatCannotRunIsALaunchFailure) {
  EXPECT_EQ(explain_failure({{127, 0}, std::nullopt, "cannot run mpirun\n", ""}).code(),
            "LAUNCH_FAILED");
}

TEST(Outcome, OnlyWhatMayHaveBeenChanceIsTriedAgain) {
  const auto remedy = [](const char* code, int signal) {
    v1::JobError error;
    error.set_code(code);
    error.set_signal(signal);
    return remedy_for(error);
  };
  EXPECT_EQ(remedy("INVALID_INPUT", 0), Remedy::kNone);
  EXPECT_EQ(remedy("RANK_FAILED", 0), Remedy::kNone);
  EXPECT_EQ(remedy("RANK_KILLED", SIGSEGV), Remedy::kNone);
  EXPECT_EQ(remedy("RANK_KILLED", SIGKILL), Remedy::kAgain);
  EXPECT_EQ(remedy("LOST", 0), Remedy::kAgain);
  EXPECT_EQ(remedy("LAUNCH_FAILED", 0), Remedy::kHoldQueue);
}

TEST(Outcome, SurvivesHostileLogs) {
  std::string log(16000, 'x');
  log += "\xff\xfe\n process rank 99999999999 with PID 1 on node " + std::string(3000, 'h') +
         " exited on signal 999999\n";
  const v1::JobError error = explain_failure({{1, 0}, std::nullopt, log, ""});
  EXPECT_EQ(error.code(), "RANK_FAILED");
  EXPECT_LE(error.message().size(), 2000u);
}

}  // namespace
}  // namespace dotresize
