#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process/program.h"
#include "client/display/job_view.h"

namespace dotresize {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::time_t kNow = 1'700'000'100;

v1::Job job_in(v1::Job::State state) {
  v1::Job job;
  job.set_id("j1");
  job.mutable_spec()->set_name("docs-llama");
  job.set_state(state);
  job.mutable_create_time()->set_seconds(kNow - 100);
  job.mutable_start_time()->set_seconds(kNow - 90);
  return job;
}

v1::Job succeeded_job() {
  v1::Job job = job_in(v1::Job::SUCCEEDED);
  v1::JobResult& result = *job.mutable_result();
  result.set_output_path("/models/out");
  result.set_wall_time_s(61.0);
  result.mutable_dense()->set_parameters(1'000'000);
  result.mutable_dense()->set_bytes(2'000'000);
  result.mutable_dense()->set_perplexity(10.0);
  result.mutable_compressed()->set_parameters(800'000);
  result.mutable_compressed()->set_bytes(1'600'000);
  result.mutable_compressed()->set_perplexity(11.0);
  result.mutable_compressed()->set_kl(0.0421);
  result.mutable_compressed()->set_agreement(0.9123);
  return job;
}

TEST(Outcome, SucceededIsATableOfBothModels) {
  EXPECT_EQ(outcome_text(succeeded_job()),
            "                dense  compressed   change\n"
            "perplexity     10.000      11.000  +10.0 %\n"
            "KL                         0.0421\n"
            "agreement                  91.2 %\n"
            "parameters  1,000,000     800,000  -20.0 %\n"
            "bytes        1.91 MiB    1.53 MiB  -20.0 %\n"
            "\n"
            "output  /models/out\n"
            "took    1 min 1 s\n");
}

TEST(Outcome, WithoutAnEvaluationThereIsNoPerplexity) {
  v1::Job job = succeeded_job();
  job.mutable_result()->mutable_dense()->clear_perplexity();
  job.mutable_result()->mutable_compressed()->clear_perplexity();
  EXPECT_THAT(outcome_text(job), Not(HasSubstr("perplexity")));
}

TEST(Outcome, WhatWasNotComparedHasNoRow) {
  v1::Job job = succeeded_job();
  job.mutable_result()->mutable_compressed()->clear_kl();
  job.mutable_result()->mutable_compressed()->clear_agreement();
  EXPECT_THAT(outcome_text(job), Not(HasSubstr("KL")));
  EXPECT_THAT(outcome_text(job), Not(HasSubstr("agreement")));
}

TEST(Outcome, FailedSaysWhereAndWhy) {
  v1::Job job = job_in(v1::Job::FAILED);
  job.mutable_error()->set_code("RANK_KILLED");
  job.mutable_error()->set_message("killed by signal 9");
  job.mutable_error()->set_rank(3);
  job.mutable_error()->set_host("node1");
  job.mutable_error()->set_phase("solve");
  EXPECT_EQ(outcome_text(job),
            "the job failed: RANK_KILLED on rank 3 (node1) in phase solve: killed by signal 9\n");
}

TEST(ExitCode, SaysHowTheJobEnded) {
  EXPECT_EQ(exit_code_for(succeeded_job()), kExitOk);
  EXPECT_EQ(exit_code_for(job_in(v1::Job::CANCELLED)), kExitCancelled);
  v1::Job failed = job_in(v1::Job::FAILED);
  failed.mutable_error()->set_code("RANK_KILLED");
  EXPECT_EQ(exit_code_for(failed), kExitJobFailed);
  failed.mutable_error()->set_code("INVALID_INPUT");
  EXPECT_EQ(exit_code_for(failed), kExitBadData);
}

TEST(JobTable, HasOneLinePerJobUnderAHeading) {
  v1::Job running = job_in(v1::Job::RUNNING);
  running.mutable_progress()->set_fraction(0.58);
  EXPECT_EQ(job_table({running}, kNow),
            "ID  NAME        STATE    DONE         CREATED        TOOK\n"
            "j1  docs-llama  running  58 %  1 min 40 s ago  1 min 30 s\n");
  EXPECT_EQ(job_table({}, kNow), "no jobs\n");
}

TEST(JobText, ACancelThatHasNotTakenEffectIsShown) {
  v1::Job job = job_in(v1::Job::RUNNING);
  job.set_cancelling(true);
  EXPECT_THAT(job_text(job, kNow), HasSubstr("cancelling"));
}

TEST(JobText, AJobThatTheServerStopsSaysWhy) {
  v1::Job job = job_in(v1::Job::RUNNING);
  job.mutable_stop_reason()->set_code("DEADLINE_EXCEEDED");
  job.mutable_stop_reason()->set_message("its time is over");
  job.mutable_stop_reason()->set_rank(-1);
  EXPECT_THAT(job_text(job, 0), HasSubstr("DEADLINE_EXCEEDED: its time is over"));
}

TEST(JobText, AQueuedJobSaysWhereItIsAndWhatItWaitsFor) {
  v1::Job job = job_in(v1::Job::QUEUED);
  job.set_queue_position(3);
  job.set_waiting_for("the 2 jobs before it");
  EXPECT_THAT(job_text(job, kNow), HasSubstr("position   3 in the queue\n"));
  EXPECT_THAT(job_text(job, kNow), HasSubstr("waits for  the 2 jobs before it\n"));
  EXPECT_THAT(job_text(job, kNow), Not(HasSubstr("starts")));
  job.mutable_expected_start_time()->set_seconds(kNow);
  EXPECT_THAT(job_text(job, kNow), HasSubstr("starts     at about "));
}

TEST(JobText, TimesHaveTheirZone) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_THAT(job_text(job_in(v1::Job::RUNNING), kNow),
              HasSubstr("created  2023-11-14 22:13:20 UTC\n"));
}

TEST(JobText, TheTimeThatASuccessTookIsTheSameEverywhere) {
  v1::Job job = succeeded_job();
  job.mutable_end_time()->set_seconds(kNow - 90 + 63);  // 63 s; the result says 61 s
  EXPECT_THAT(job_text(job, kNow), HasSubstr("took     1 min 1 s\n"));
  EXPECT_THAT(job_table({job}, kNow), HasSubstr("1 min 1 s\n"));
}

TEST(ReportText, WidthsThatDifferAreARange) {
  ReportSummary summary;
  summary.width_range = "168 to 216";
  summary.hidden_size = 256;
  EXPECT_THAT(report_text(summary), HasSubstr("width   168 to 216 of 256\n"));
}

TEST(JobText, WhatTheReportWarnsOfComesLast) {
  v1::Job job = succeeded_job();
  job.mutable_result()->add_warnings("of little\nuse");
  EXPECT_TRUE(outcome_text(job).ends_with("\nwarning: of little use\n")) << outcome_text(job);
  EXPECT_TRUE(job_text(job, kNow).ends_with("\nwarning: of little use\n"));
}

TEST(JobText, ASucceededJobShowsItsResult) {
  EXPECT_THAT(job_text(succeeded_job(), kNow), HasSubstr("perplexity     10.000"));
}

}  // namespace
}  // namespace dotresize
