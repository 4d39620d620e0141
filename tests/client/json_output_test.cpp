#include <gtest/gtest.h>

#include "client/display/verb_output.h"

namespace dotresize {
namespace {

v1::Job finished_job() {
  v1::Job job;
  job.set_id("j1");
  job.set_state(v1::Job::SUCCEEDED);
  job.mutable_create_time()->set_seconds(1'700'000'000);
  job.mutable_result()->mutable_dense()->set_parameters(8'030'261'248);
  return job;
}

TEST(JsonOutput, LargeIntegersAreNumbers) {
  const auto json = to_json(finished_job());
  EXPECT_EQ(json["result"]["dense"]["parameters"], 8'030'261'248);
  EXPECT_TRUE(json["result"]["dense"]["parameters"].is_number_integer());
}

TEST(JsonOutput, KeysAreSpelledAsInTheProto) {
  const auto json = to_json(finished_job());
  EXPECT_EQ(json["state"], "SUCCEEDED");
  EXPECT_EQ(json["create_time"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(json["result"]["output_path"], "");
}

TEST(JsonOutput, WhatIsNotSetIsAbsentOrDefault) {
  const auto json = to_json(finished_job());
  EXPECT_FALSE(json.contains("error"));
  EXPECT_EQ(json["attempt"], 0);
}

TEST(JsonOutput, ListIsOneObject) {
  const auto json = to_json({finished_job(), finished_job()});
  ASSERT_EQ(json["jobs"].size(), 2u);
  EXPECT_EQ(json["jobs"][0]["result"]["dense"]["parameters"], 8'030'261'248);
  EXPECT_EQ(to_json(std::vector<v1::Job>{}).dump(), R"({"jobs":[]})");
}

TEST(JsonOutput, EventCarriesItsSequenceNumber) {
  v1::Event event;
  event.set_seq(1LL << 40);
  event.mutable_state_change()->set_state(v1::Job::RUNNING);
  const auto json = to_json(event);
  EXPECT_EQ(json["seq"], 1LL << 40);
  EXPECT_EQ(json["state_change"]["state"], "RUNNING");
}

TEST(JsonOutput, ErrorNamesCodeExitCodeAndFields) {
  const auto json =
      error_json("INVALID_ARGUMENT", "no", 65, {{"method.sparsity", "must be below 1"}});
  EXPECT_EQ(json["error"]["exit_code"], 65);
  EXPECT_EQ(json["error"]["violations"][0]["field"], "method.sparsity");
  EXPECT_FALSE(error_json("UNAVAILABLE", "no", 69)["error"].contains("violations"));
}

}  // namespace
}  // namespace dotresize
