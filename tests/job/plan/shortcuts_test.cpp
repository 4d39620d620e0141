#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "job/model/model_size.h"
#include "job/model/output_config.h"
#include "job/model/read_model_config.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/net_size.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::ElementsAre;

TEST(ShortcutForm, OfOneFactorIsSmallerAboveHalfTheWidthAndOfTwoAboveTwoThirds) {
  for (const int64_t d : {60, 256, 257, 8192}) {
    for (int64_t k = 1; k <= d; ++k) {
      EXPECT_EQ(!smallest_shortcut(k, k, d, 1).dense(), 2 * k > d) << k << " of " << d;
      EXPECT_EQ(!smallest_shortcut(k, k, d, 2).dense(), 3 * k > 2 * d) << k << " of " << d;
    }
  }
}

TEST(ShortcutForm, IsNeverLargerThanAMatrix) {
  for (int64_t k_in = 1; k_in <= 24; ++k_in) {
    for (int64_t k_out = 1; k_out <= 24; ++k_out) {
      for (const int64_t factors : {1, 2}) {
        const ShortcutForm form = smallest_shortcut(k_in, k_out, 24, factors);
        EXPECT_LE(shortcut_parameters(form, k_in, k_out), k_in * k_out);
      }
    }
  }
}

TEST(ShortcutForms, RanksAreExact) {
  std::vector<int64_t> ranks;
  for (const ShortcutForm& form :
       shortcut_forms(std::vector<int64_t>{200, 200, 256}, 256, /*oblique=*/false)) {
    ranks.push_back(form.rank.value_or(-1));
  }
  EXPECT_THAT(ranks, ElementsAre(56, 0));
}

ResolvedJob job_of(int64_t width, bool head_sliced = false) {
  ResolvedJob job = small_job(small_llama(), 1);
  job.maps.head_sliced = head_sliced;
  job.widths = uniform_widths(small_llama(), head_sliced, width);
  return job;
}

NetSize size_of(const ResolvedJob& job) {
  return net_size(small_llama(), output_model_config(small_llama(), job, job.widths));
}

/// Returns the config of an output of earlier versions, whose shortcuts are one matrix each.
ModelConfig with_matrices(const ResolvedJob& job) {
  ModelConfig output = output_model_config(small_llama(), job, job.widths);
  output.form.shortcuts.clear();
  return output;
}

TEST(ShortcutSizes, AJobOfTenPercentIsSmallerThanItsSource) {
  EXPECT_GT(stored_parameters(with_matrices(job_of(232))), stored_parameters(small_llama()));
  EXPECT_LT(size_of(job_of(232)).bytes_fraction(), 1.0);
  EXPECT_LT(size_of(job_of(248)).bytes_fraction(), 1.0);
}

TEST(ShortcutSizes, AreWhatTheFactorsHold) {
  const int64_t matrices = stored_parameters(with_matrices(job_of(200)));
  EXPECT_EQ(matrices - size_of(job_of(200)).compressed_parameters,
            11 * (200 * 200 - 200 * 56) + 200 * 256);
  EXPECT_EQ(stored_parameters(with_matrices(job_of(200, true))) -
                size_of(job_of(200, true)).compressed_parameters,
            12 * (200 * 200 - 200 * 56));
}

TEST(ShortcutSizes, BelowHalfTheWidthExactOnesAreMatrices) {
  EXPECT_EQ(size_of(job_of(120, true)).compressed_parameters,
            stored_parameters(with_matrices(job_of(120, true))));
}

TEST(ShortcutSizes, GrowWithTheWidth) {
  int64_t before = 0;
  for (int64_t k = 8; k <= 256; k += 8) {
    const int64_t parameters = size_of(job_of(k)).compressed_parameters;
    EXPECT_GT(parameters, before) << k;
    before = parameters;
  }
}

const char* const kSource = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 4096, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 2048, "dtype": "bfloat16"})";

ModelConfig written_and_read(const ModelConfig& output) {
  return parse_model_config(output_config_json(kSource, output), "config.json");
}

TEST(ShortcutConfig, IsReadAsItIsWritten) {
  for (const int64_t width : {120, 200, 256}) {
    const ResolvedJob job = job_of(width);
    const ModelConfig output = output_model_config(small_llama(), job, job.widths);
    const ModelConfig read = written_and_read(output);
    EXPECT_EQ(read.form.shortcuts, output.form.shortcuts) << width;
    EXPECT_EQ(stored_parameters(read), stored_parameters(output));
  }
}

TEST(ShortcutConfig, OfTwoFactorsIsReadAsItIsWritten) {
  const ResolvedJob job = job_of(200);
  ModelConfig output = output_model_config(small_llama(), job, job.widths);
  for (ShortcutForm& form : output.form.shortcuts) form.factors = 2;
  output.form.shortcuts[3] = {.factors = 2};
  EXPECT_EQ(written_and_read(output).form.shortcuts, output.form.shortcuts);
  EXPECT_TRUE(written_and_read(output).shortcut(3).dense());
}

TEST(ShortcutConfig, OfAnOlderOutputIsOneMatrixEach) {
  const ModelConfig output = with_matrices(job_of(200));
  EXPECT_FALSE(
      nlohmann::json::parse(output_config_json(kSource, output)).contains("shortcut_ranks"));
  EXPECT_TRUE(written_and_read(output).shortcut(11).dense());
}

TEST(ShortcutForms, OfObliqueMapsHaveTwoFactors) {
  EXPECT_THAT(shortcut_forms(std::vector<int64_t>{200, 200, 256}, 256, /*oblique=*/true),
              ElementsAre(ShortcutForm{56, 2}, ShortcutForm{56, 2}));
  // The forms of shortcuts that are matrices still say that the maps are oblique.
  const ShortcutForm matrix{.factors = 2};
  EXPECT_THAT(shortcut_forms(std::vector<int64_t>{100, 100, 110}, 256, /*oblique=*/true),
              ElementsAre(matrix, matrix));
}

}  // namespace
}  // namespace dotresize
