#include "job/plan/resolve/asked_size.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <ranges>
#include <string>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/plan/net_size.h"
#include "job/plan/plan_table.h"
#include "tests/job/model/test_configs.h"
#include "tests/job/plan/resolve_job.h"

namespace dotresize {
namespace {

using testing::HasSubstr;

class AskedSize : public ResolveJob {
 protected:
  AskedSize() { config_ = llama31(); }

  ResolvedJob job(const std::string& method, const std::string& dtype = "same") {
    text("name: n\nmodel: {path: m}\noutput: {path: o, dtype: " + dtype + "}\nmethod: {" + method +
         "}\ncalibration: {text: [c.txt]}\n");
    return resolve();
  }
  int64_t most_bytes(const ResolvedJob& job) const {
    return largest_bytes(job.target.allocation->size, stored_bytes(config_));
  }
  std::string error_of(const std::string& method) {
    try {
      job(method);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(AskedSize, OfBytesIsTheirShareOfTheDenseModel) {
  EXPECT_EQ(most_bytes(job("bytes: 12GB")), 12'000'000'000);
  EXPECT_EQ(most_bytes(job("bytes: 11.5GiB")), 23 * (int64_t{1} << 29));
  EXPECT_EQ(job("name: slicegpt, bytes: 12GB").widths.largest(),
            job("name: slicegpt, size: 0.74716").widths.largest());
  EXPECT_THAT(error_of("bytes: 17GB"),
              HasSubstr("17GB is not less than the dense model has, 16,060,522,496 bytes"));
}

/// The config with this many features in every MLP.
ModelConfig with_features(ModelConfig config, int64_t features) {
  for (LayerSpec& layer : config.layers) layer.mlp.intermediate_size = features;
  return config;
}

TEST_F(AskedSize, OfASpeedLeavesAsManyMultiplications) {
  for (const double speed : {1.1, 1.5, 2.0}) {
    const ResolvedJob resolved = job("speed: " + std::to_string(speed));
    const auto fits = [&, most = most_bytes(resolved)](int64_t features) {
      return stored_bytes(with_features(config_, features)) <= most;
    };
    const auto all = std::views::iota(int64_t{1}, config_.layers.front().mlp.intermediate_size);
    const int64_t features = *std::ranges::partition_point(all, fits) - 1;
    ASSERT_TRUE(fits(features) && !fits(features + 1));
    const ModelConfig cut = with_features(config_, features);
    EXPECT_NEAR(static_cast<double>(prompt_multiplications(config_)) /
                    static_cast<double>(prompt_multiplications(cut)),
                speed, 0.001);
    EXPECT_NEAR(*speed_at_size(resolved.target.allocation->size, config_, resolved.output.dtypes),
                speed, 1e-9);
  }
}

TEST_F(AskedSize, OfASpeedDoesNotDependOnTheDtype) {
  const double same = job("speed: 1.3").target.allocation->size;
  EXPECT_NEAR(job("speed: 1.3, allow_larger: true", "float32").target.allocation->size, 2 * same,
              1e-9);
}

TEST_F(AskedSize, OfALargerModelIsWarnedOfWithWhatTheJobCanUse) {
  EXPECT_THAT(plan_table(make_job_plan(
                  config_, job("name: slicegpt, size: 1.6, allow_larger: true", "float32"))),
              testing::EndsWith("; remedies: output.dtype: same, method.size below 1"));
}

TEST_F(AskedSize, OfASpeedThatIsNotThereIsRefused) {
  EXPECT_THAT(error_of("speed: 100"), HasSubstr("without any layer the model would be 14.3 times"));
  config_ = parse_model_config(kMixtralConfig, "config.json");
  EXPECT_THAT(error_of("speed: 1.2"), HasSubstr("a token uses some experts of this mixtral alone"));
}

TEST_F(AskedSize, IsNamedAsItWasAskedForWhereItIsNotThere) {
  EXPECT_THAT(error_of("bytes: 100MB"),
              HasSubstr("method.bytes: 100MB, a size of 0.00622645, is not available"));
  EXPECT_THAT(error_of("name: slicegpt, bytes: 1MB"), HasSubstr("method.bytes: 1MB, a size of"));
  EXPECT_THAT(plan_table(make_job_plan(config_, job("bytes: 8GB"))),
              HasSubstr("warning: method.bytes 8GB: embedding and head"));
}

TEST_F(AskedSize, IsToldByThePlanInAllThreeForms) {
  const std::string plan = plan_table(make_job_plan(config_, job("speed: 1.25")));
  EXPECT_THAT(plan, HasSubstr("\nspeed       1.25 times the dense model's, by counted"));
  EXPECT_THAT(plan, HasSubstr("compressed  at most 13,058"));
}

}  // namespace
}  // namespace dotresize
