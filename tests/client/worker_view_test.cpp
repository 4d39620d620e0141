#include "client/display/worker_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dotresize {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kRule(74, '-');
const std::string kOurs =
    "dotresize-worker: error: rank 0 on node in prepare: calibration.text: too short\n";
const std::string kOfMpi = kRule +
                           "\nMPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\n"
                           "with errorcode 65.\n" +
                           kRule + "\n[node:1234] 3 more processes have sent help message\n";

/// Returns what is on stderr after a worker has written `text` and ended.
std::string shown(const std::string& text, int exit_code, const WorkerView::Options& options = {}) {
  testing::internal::CaptureStderr();
  WorkerView view(options);
  view.standard_error(text);
  view.finish(exit_code);
  return testing::internal::GetCapturedStderr();
}

TEST(WorkerView, AnExplainedFailureIsOurLineAlone) {
  EXPECT_EQ(shown(kOurs + kOfMpi, 65), kOurs);
  EXPECT_EQ(shown(kRule + "\nMPI_ABORT\n" + kOurs + kRule + "\n", 65), kOurs);
}

TEST(WorkerView, WithVerboseMpiIsShown) {
  EXPECT_EQ(shown(kOurs + kOfMpi, 65, {.verbose = true}), kOurs + kOfMpi);
}

TEST(WorkerView, WhatOnlyMpiExplainsIsShown) {
  EXPECT_EQ(shown(kOfMpi, 137), kOfMpi);
  EXPECT_EQ(shown(kOfMpi, 0), "");
}

TEST(WorkerView, AnEndWithoutAWordComesWithWhatToTry) {
  EXPECT_THAT(shown("", 1), AllOf(HasSubstr("the ranks ended with exit code 1"),
                                  HasSubstr("`dotresize doctor`")));
  EXPECT_THAT(shown("", 137), HasSubstr("killed by signal 9 (Killed)"));
  EXPECT_EQ(shown("dotresize-worker: error: model: no such directory\n", 65),
            "dotresize-worker: error: model: no such directory\n");
  EXPECT_EQ(shown("", 0), "");
  EXPECT_EQ(shown("", 2), "");
}

TEST(WorkerView, TheSameFailureOfSeveralRanksIsShownOnce) {
  std::string other = kOurs;
  other.replace(other.find("rank 0"), 6, "rank 5");
  EXPECT_EQ(shown(kOurs + other, 65), kOurs);
}

TEST(WorkerView, RecordsBecomeProgressAndOtherLinesStay) {
  const std::string records =
      "\x1e{\"phase\":\"calibrate\",\"fraction\":0.5,\"eta_s\":42,\"later_field\":1}\n"
      "note: of the worker\n"
      "\x1e{\"phase\":\"finish\",\"fraction\":1.0,\"eta_s\":-1}\n";
  EXPECT_EQ(shown(records, 0), "calibrate 50 %, ETA 0:42\nnote: of the worker\nfinish 100 %\n");
}

TEST(WorkerView, LinesMayComeInPieces) {
  testing::internal::CaptureStderr();
  WorkerView view({});
  for (const char c : kOurs.substr(0, kOurs.size() - 1)) view.standard_error({&c, 1});
  view.finish(65);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), kOurs);
}

TEST(WorkerView, NoLineCanSteerTheTerminal) {
  EXPECT_THAT(shown("\x1b[2J\n\x1enot json \x1b[2J\n", 0), Not(HasSubstr("\x1b")));
}

TEST(WorkerView, ItsOutputGoesToStderrOnceStdoutHasItsDocument) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  WorkerView({.output_to_stderr = true}).standard_output("table\n");
  WorkerView({}).standard_output("other\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "table\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "other\n");
}

}  // namespace
}  // namespace dotresize
