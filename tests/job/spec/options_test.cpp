#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/spec/command_options.h"

namespace dotresize {
namespace {

using testing::ElementsAre;

using Arguments = std::vector<std::string>;

/// Returns the request that `add` fills from the arguments, which are checked as the programs do.
template <class Request, class Add>
Request parsed(Arguments arguments, const Add& add) {
  CLI::App app;
  Request request;
  add(app, request);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them reversed
  app.parse(arguments);
  refuse_empty_arguments(app);
  return request;
}

TEST(EvalOptions, ComeOutOfTheirOwnArgumentsAgain) {
  const auto request =
      parsed<EvalRequest>({"a",        "b",        "--text",    "x",         "y",
                           "--seqlen", "64",       "--latency", "--prompt",  "5",
                           "--decode", "6",        "--batch",   "7",         "--repetitions",
                           "8",        "--warmup", "0",         "--runtime", "transformers"},
                          add_eval_options);
  const auto again = parsed<EvalRequest>(eval_arguments(request), add_eval_options);
  for (const EvalRequest& found : {request, again}) {
    EXPECT_THAT(found.models, ElementsAre("a", "b"));
    EXPECT_THAT(found.source.text, ElementsAre("x", "y"));
    EXPECT_EQ(found.source.seqlen, 64);
    EXPECT_TRUE(found.latency);
    EXPECT_EQ(found.latency_options.prompt, 5);
    EXPECT_EQ(found.latency_options.decode, 6);
    EXPECT_EQ(found.latency_options.batch, 7);
    EXPECT_EQ(found.latency_options.repetitions, 8);
    EXPECT_EQ(found.latency_options.warmup, 0);
    EXPECT_EQ(found.runtime, Runtime::kTransformers);
  }
}

TEST(EvalOptions, TextsToContinueMayBeginWithAHyphen) {
  const auto request = parsed<EvalRequest>(
      {"a", "--generate", "one two", "--generate=-x", "--new-tokens", "7"}, add_eval_options);
  const auto again = parsed<EvalRequest>(eval_arguments(request), add_eval_options);
  EXPECT_THAT(again.prompts, ElementsAre("one two", "-x"));
  EXPECT_THAT(again.models, ElementsAre("a"));
  EXPECT_EQ(again.new_tokens, 7);
  EXPECT_THROW(
      parsed<EvalRequest>({"a", "--generate", "x", "--runtime", "transformers"}, add_eval_options),
      CLI::ParseError);
  EXPECT_THROW(parsed<EvalRequest>({"a", "--latency", "--new-tokens", "7"}, add_eval_options),
               CLI::ParseError);
}

TEST(EvalOptions, ATextToContinueHasCharacters) {
  EXPECT_THROW(parsed<EvalRequest>({"a", "--generate", ""}, add_eval_options), CLI::ParseError);
}

TEST(EvalOptions, NeedSomethingToMeasure) {
  EXPECT_THROW(parsed<EvalRequest>({"a"}, add_eval_options), CLI::ParseError);
  EXPECT_THROW(parsed<EvalRequest>({"--latency"}, add_eval_options), CLI::ParseError);
  EXPECT_THROW(parsed<EvalRequest>({"a", "--latency", "--seqlen", "8"}, add_eval_options),
               CLI::ParseError);
  EXPECT_NO_THROW(parsed<EvalRequest>({"a", "--tokens", "t", "--seqlen", "8"}, add_eval_options));
}

TEST(VerifyOptions, ComeOutOfTheirOwnArgumentsAgain) {
  const auto request = parsed<VerifyRequest>(
      {"a", "--against", "b", "--tokens", "t", "--seqlen", "9"}, add_verify_options);
  const auto again = parsed<VerifyRequest>(verify_arguments(request), add_verify_options);
  for (const VerifyRequest& found : {request, again}) {
    EXPECT_EQ(found.dir, "a");
    EXPECT_EQ(found.against, "b");
    EXPECT_EQ(found.source.tokens, "t");
    EXPECT_EQ(found.source.seqlen, 9);
  }
}

}  // namespace
}  // namespace dotresize
