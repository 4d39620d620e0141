// Windows of a job's sources.
#include <gmock/gmock.h>

#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::HasSubstr;

TEST_F(ResolveJob, WindowsBeyondTheModelsPositionsNeedADynamicEmbedding) {
  spec_.mutable_calibration()->set_seqlen(4096);
  EXPECT_THAT(error(), HasSubstr("calibration.seqlen: 4096 is more than the model's "
                                 "max_position_embeddings, 2048"));
  config_.rotaries.front().type = "dynamic";
  config_.rotaries.front().factor = 2.0;
  EXPECT_EQ(resolve().calibration.seqlen, 4096);
  spec_.mutable_calibration()->set_seqlen(4097);
  EXPECT_THAT(error(), HasSubstr("2048, times the factor of its rotary embedding, 4096"));
}

TEST_F(ResolveJob, EvaluationTakesTheSeqlenOfCalibration) {
  spec_.mutable_calibration()->set_seqlen(512);
  spec_.mutable_evaluation()->add_text((dir_.path() / "e.txt").string());
  EXPECT_EQ(resolve().evaluation->seqlen, 512);
  spec_.mutable_evaluation()->set_seqlen(64);
  EXPECT_EQ(resolve().evaluation->seqlen, 64);
}

TEST_F(ResolveJob, ATokenFileKeepsItsOwnShapeUnlessOneIsGiven) {
  const auto resolve_with = [&](const std::string& more) {
    text(
        "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
        "calibration: {tokens: c.safetensors" +
        more);
    return resolve();
  };
  const ResolvedJob own = resolve_with("}\n");
  EXPECT_EQ(own.calibration.tokens, dir_.path() / "c.safetensors");
  EXPECT_EQ(own.calibration.samples, 16);
  EXPECT_EQ(own.calibration.seqlen, 1024);
  EXPECT_EQ(own.calibration.count, 16 * 1024);
  EXPECT_EQ(expected_tokens(own, config_), 16 * 1024);
  const ResolvedJob cut = resolve_with(", seqlen: 512}\nevaluation: {samples: 3}\n");
  EXPECT_EQ(cut.calibration.samples, 32);
  EXPECT_EQ(expected_evaluation_tokens(cut, config_), 3 * 512);
  EXPECT_EQ(resolve_with(", samples: 4}\n").calibration.samples, 4);
  // 12 windows are left.
  const ResolvedJob beside = resolve_with(", samples: 4}\nevaluation: {}\n");
  EXPECT_EQ(expected_evaluation_tokens(beside, config_), 12 * 1024);
  dir_.write("e.safetensors", token_file({5000}));
  const ResolvedJob apart = resolve_with("}\nevaluation: {tokens: e.safetensors}\n");
  EXPECT_EQ(expected_evaluation_tokens(apart, config_), 4 * 1024);
  dir_.write("c.safetensors", token_file({300'000}));
  EXPECT_EQ(resolve_with("}\n").calibration.samples, 128);
  EXPECT_EQ(resolve().calibration.seqlen, 2048);
}

TEST_F(ResolveJob, ATokenFileThatCannotBeReadIsNamed) {
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
      "calibration: {tokens: c.safetensors}\n");
  dir_.write("c.safetensors", "no header");
  EXPECT_THAT(error(),
              testing::StartsWith("calibration.tokens: " + (dir_ / "c.safetensors").string()));
  dir_.write("c.safetensors", token_file({2, 2, 2}));
  EXPECT_THAT(error(), HasSubstr("has 3 dimensions, expected [n] or [samples, seqlen]"));
}

TEST_F(ResolveJob, WindowsAreNoLongerThanTheModelUnlessTheJobSaysSo) {
  config_.max_position_embeddings = 512;
  EXPECT_EQ(resolve().calibration.seqlen, 512);
  spec_.mutable_calibration()->set_seqlen(513);
  EXPECT_THAT(error(), HasSubstr("calibration.seqlen: 513 is more than the model's "
                                 "max_position_embeddings, 512"));
  text(
      "name: n\nmodel: {path: m}\noutput: {path: o}\nmethod: {sparsity: 0.2}\n"
      "calibration: {tokens: c.safetensors}\n");
  EXPECT_THAT(error(), HasSubstr("calibration.seqlen: 1024 is more than the model's "
                                 "max_position_embeddings, 512: the rows of the token file have "
                                 "this length; a smaller seqlen cuts them"));
  spec_.mutable_calibration()->set_seqlen(256);
  EXPECT_EQ(resolve().calibration.samples, 64);
}

TEST_F(ResolveJob, AnEvaluationWithoutASourceHasWhatTheCalibrationLeaves) {
  spec_.mutable_evaluation();
  EXPECT_TRUE(resolve().evaluation->unused_windows);
  EXPECT_EQ(resolve().evaluation->text, resolve().calibration.text);
  EXPECT_EQ(resolve().evaluation->tokens, resolve().calibration.tokens);
  EXPECT_FALSE(resolve().evaluation->samples);
  spec_.mutable_evaluation()->set_samples(4);
  EXPECT_EQ(resolve().evaluation->samples, 4);
  spec_.mutable_evaluation()->add_text((dir_.path() / "e.txt").string());
  EXPECT_FALSE(resolve().evaluation->unused_windows);
  EXPECT_EQ(resolve().evaluation->samples, 4);
}

}  // namespace
}  // namespace dotresize
