#include "server/launch/slurm/slurm_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dotresize {
namespace {

using ::testing::HasSubstr;

SlurmJob job_in(const std::string& state, int wait_status = 0, int restarts = 0) {
  return {17, "dotresize-j-1-1", state, restarts, wait_status, "None"};
}

TEST(Slurm, JobsOfOthersAreLeftOut) {
  const auto jobs = parse_squeue(
      "12|wrap|RUNNING|0|0|None|\n"
      "13|their|own|words|\n"
      "17|dotresize-j-1-1|PENDING|2|36608|Resources|\n");
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].id, 17);
  EXPECT_EQ(jobs[0].name, "dotresize-j-1-1");
  EXPECT_EQ(jobs[0].state, "PENDING");
  EXPECT_EQ(jobs[0].restarts, 2);
  EXPECT_EQ(jobs[0].wait_status, 143 << 8);
  EXPECT_EQ(jobs[0].reason, "Resources");
  EXPECT_EQ(parse_squeue("17|dotresize-j-1-1|FAILED|0|143:0|None|\n")[0].wait_status, 143 << 8);
}

TEST(Slurm, AnswerOfAnotherFormIsNoEmptyQueue) {
  EXPECT_THROW(parse_squeue("17  dotresize-j-1-1  RUNNING\n"), std::runtime_error);
  EXPECT_THROW(parse_squeue("x|dotresize-j-1-1|RUNNING|0|0|None|\n"), std::runtime_error);
  EXPECT_THROW(parse_sacct("17|dotresize-j-1-1|FAILED\n"), std::runtime_error);
  EXPECT_THROW(parse_sacct("17|dotresize-j-1-1|FAILED|1:x\n"), std::runtime_error);
}

TEST(Slurm, AccountingSaysHowAJobHasEnded) {
  const auto jobs = parse_sacct(
      "17|dotresize-j-1-1|FAILED|65:0\n"
      "18|dotresize-j-2-1|CANCELLED by 1000|0:15\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(status_of(jobs[0], 0).exit.exit_code, 65);
  EXPECT_EQ(jobs[1].state, "CANCELLED");
  EXPECT_TRUE(has_ended(jobs[1]));
}

TEST(Slurm, EndOfTheScriptIsTheEndOfTheAttempt) {
  EXPECT_EQ(status_of(job_in("COMPLETED"), 0).exit.exit_code, 0);
  const AttemptStatus failed = status_of(job_in("FAILED", 65 << 8), 0);
  EXPECT_EQ(failed.liveness, Liveness::kExited);
  EXPECT_EQ(failed.exit.exit_code, 65);
  EXPECT_FALSE(failed.failure);
  // slurmctld reports this for a script that could not be started.
  EXPECT_THAT(status_of(job_in("FAILED", 4021), 0).failure->message, HasSubstr("all nodes have"));
}

TEST(Slurm, WhatSlurmDoesToAJobIsTriedAgainWhatPeopleDoIsNot) {
  for (const char* state : {"NODE_FAIL", "PREEMPTED", "TIMEOUT", "BOOT_FAIL", "OUT_OF_MEMORY"}) {
    const AttemptStatus status = status_of(job_in(state), 0);
    EXPECT_EQ(status.liveness, Liveness::kExited) << state;
    EXPECT_EQ(status.failure->code, kLost) << state;
    EXPECT_NE(status.exit.exit_code, 0) << state;
  }
  EXPECT_EQ(status_of(job_in("CANCELLED"), 0).failure->code, kRankFailed);
}

TEST(Slurm, NobodyIsExpectedToCallWhileSlurmHoldsTheJob) {
  for (const char* state : {"PENDING", "CONFIGURING", "SUSPENDED", "COMPLETING", "REQUEUE_HOLD"}) {
    EXPECT_EQ(status_of(job_in(state), 0).liveness, Liveness::kWaiting) << state;
  }
  EXPECT_EQ(status_of(job_in("RUNNING"), 0).liveness, Liveness::kAlive);
  EXPECT_EQ(status_of(job_in("SOMETHING_NEW"), 0).liveness, Liveness::kAlive);
}

TEST(Slurm, JobThatWasQueuedAgainIsNoLongerTheAttempts) {
  EXPECT_EQ(status_of(job_in("PENDING", 0, 1), 0).liveness, Liveness::kRestarted);
  EXPECT_EQ(status_of(job_in("RUNNING", 0, 1), 0).liveness, Liveness::kRestarted);
  EXPECT_EQ(status_of(job_in("RUNNING", 0, 1), 1).liveness, Liveness::kAlive);
  EXPECT_EQ(status_of(job_in("CANCELLED", 0, 1), 0).liveness, Liveness::kExited);
}

TEST(Slurm, RefusalIsNoSilence) {
  EXPECT_EQ(submission_failure("sbatch: error: Batch job submission failed: Unable to contact "
                               "slurm controller (connect failure)")
                .code,
            kLaunchFailed);
  EXPECT_EQ(submission_failure("sbatch: error: Batch job submission failed: Requested node "
                               "configuration is not available")
                .code,
            kInvalidInput);
}

}  // namespace
}  // namespace dotresize
