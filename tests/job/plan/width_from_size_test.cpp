#include <gmock/gmock.h>

#include "base/errors.h"
#include "job/model/model_size.h"
#include "job/model/read_model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/net_size.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::HasSubstr;

/// Everything that affects the size of a job's output, except the width.
struct Case {
  std::string name;
  const char* config;
  bool shared;
  bool head_sliced;
  Dtype output_dtype;
};

void PrintTo(const Case& example, std::ostream* out) { *out << example.name; }

std::vector<Case> cases() {
  return {
      {"LlamaJunction", kLlama31Config, false, false, Dtype::kBFloat16},
      {"LlamaJunctionSliced", kLlama31Config, false, true, Dtype::kBFloat16},
      {"LlamaModel", kLlama31Config, true, true, Dtype::kBFloat16},
      {"LlamaModelFloat32", kLlama31Config, true, true, Dtype::kFloat32},
      {"MistralModel", kMistralV03Config, true, true, Dtype::kFloat16},
      {"Phi3Junction", kPhi3MiniConfig, false, false, Dtype::kBFloat16},
      {"TiedQwen2Junction", kQwen25Config, false, false, Dtype::kBFloat16},
      {"TiedQwen3JunctionSliced", kQwen3Config, false, true, Dtype::kBFloat16},
  };
}

ResolvedJob job_of(const Case& example, const ModelConfig& config) {
  ResolvedJob job;
  job.output.dtypes.main = example.output_dtype;
  job.maps.shared = example.shared;
  job.maps.head_sliced = example.head_sliced;
  job.model.hidden_size = config.hidden_size;
  return job;
}

int64_t bytes_at(int64_t width, const ModelConfig& config, const ResolvedJob& job) {
  const JunctionWidths widths =
      decided(uniform_widths(config, job.maps.head_sliced, width), config.hidden_size);
  return stored_parameters(output_model_config(config, job, widths)) *
         size_in_bytes(job.output.dtypes.main);
}

class Sizes : public testing::TestWithParam<Case> {};

TEST_P(Sizes, AreMetByTheLargestMultipleThatFits) {
  const ModelConfig config = parse_model_config(GetParam().config, "config.json");
  const ResolvedJob job = job_of(GetParam(), config);
  const double dense = 2.0 * static_cast<double>(stored_parameters(config));
  for (const int64_t round_to : {64, 96}) {
    for (const double size : {0.5, 0.7, 0.8, 0.9, 0.99, 1.7}) {
      int64_t largest = 0;
      for (int64_t k = round_to; k <= config.hidden_size; k += round_to) {
        if (static_cast<double>(bytes_at(k, config, job)) <= size * dense) largest = k;
      }
      if (largest == 0) {
        EXPECT_THROW(width_from_size(size, round_to, config, job), InputError) << size;
      } else {
        EXPECT_EQ(width_from_size(size, round_to, config, job), largest) << size << " " << round_to;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WidthFromSize, Sizes, testing::ValuesIn(cases()),
                         [](const auto& param) { return param.param.name; });

TEST(WidthFromSize, CountsTheBytesOfEachTensor) {
  ModelConfig config = parse_model_config(kLlama31Config, "config.json");
  ResolvedJob job = job_of(cases().front(), config);
  const int64_t uniform = width_from_size(0.8, 64, config, job);
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"}) {
    config.files.dtypes.set(name, Dtype::kFloat32);
  }
  EXPECT_GT(width_from_size(0.8, 64, config, job), uniform);  // the output is all bfloat16
  job.output.dtypes = config.files.dtypes;
  const int64_t width = width_from_size(0.8, 64, config, job);
  const auto bytes = [&](int64_t k) {
    return net_size(config, output_model_config(config, job,
                                                decided(uniform_widths(config, false, k), 4096)))
        .bytes_fraction();
  };
  EXPECT_LE(bytes(width), 0.8);
  EXPECT_GT(bytes(width + 64), 0.8);
}

std::string error_of(double size, int64_t round_to) {
  const ModelConfig config = small_llama();
  try {
    width_from_size(size, round_to, config, small_job(config, 1));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was accepted";
}

TEST(WidthFromSize, AnUnreachableSizeIsRefusedWithTheSmallestOne) {
  EXPECT_EQ(error_of(0.2, 8),
            "method.size: 0.2 is not available: the smallest width, 8, gives 0.213490 of the dense "
            "model's bytes");
  EXPECT_EQ(error_of(0.21349, 8), "was accepted");
}

TEST(WidthFromSize, WithoutAMultipleThereIsNoWidth) {
  EXPECT_THAT(error_of(0.9, 257), HasSubstr("no width up to the hidden size, 256, is a multiple"));
}

}  // namespace
}  // namespace dotresize
