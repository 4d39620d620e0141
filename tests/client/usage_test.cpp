#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "client/verbs/verb.h"

namespace dotresize {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A program with two verbs.
class Usage : public testing::Test {
 protected:
  Usage() {
    app_.require_subcommand(1);
    app_.add_option("--server", server_);
    CLI::App& plan = *app_.add_subcommand("plan", "");
    plan.add_option("JOB", job_)->required();
    plan.add_option("--hardware", hardware_);
    CLI::App& status = *app_.add_subcommand("status", "");
    status.add_option("ID", job_)->required();
  }

  std::string fault_of(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them reversed
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return usage_fault(app_, error);
    }
    return "was accepted";
  }

  CLI::App app_;
  std::string server_, job_, hardware_;
};

TEST_F(Usage, AnUnknownVerbComesWithTheNearestOne) {
  EXPECT_EQ(fault_of({"pla", "job.yaml"}), "unknown verb 'pla', did you mean plan?");
  EXPECT_EQ(fault_of({"--server", "h:1", "staus"}), "unknown verb 'staus', did you mean status?");
  EXPECT_EQ(fault_of({"frobnicate"}), "unknown verb 'frobnicate'");
}

TEST_F(Usage, AnUnknownOptionComesWithTheNearestOne) {
  EXPECT_EQ(fault_of({"plan", "job.yaml", "--hardwear=x"}),
            "plan: unknown option '--hardwear', did you mean --hardware?");
  EXPECT_EQ(fault_of({"--servr", "x", "plan", "j"}),
            "plan: unknown option '--servr', did you mean --server?");
}

TEST_F(Usage, WhatIsMissingOrTooMuchIsSaid) {
  EXPECT_EQ(fault_of({"plan"}), "plan: JOB is required");
  EXPECT_EQ(fault_of({"plan", "a", "b"}), "plan: unexpected argument 'b'");
  EXPECT_EQ(fault_of({}), "no verb is given");
}

TEST_F(Usage, CompletionHasEveryVerbWithItsOptionsAndTheJobsOfVerbsThatTakeOne) {
  const std::string script = completion_script(app_, "bash");
  EXPECT_THAT(script, HasSubstr("words=\"plan status --help -h --server"));
  EXPECT_THAT(script, HasSubstr("plan) words=\" --help -h --hardware\""));
  EXPECT_THAT(script, HasSubstr("status:*) words=\"$words $(dotresize list"));
  EXPECT_THAT(script, Not(HasSubstr("plan:*)")));
}

}  // namespace
}  // namespace dotresize
