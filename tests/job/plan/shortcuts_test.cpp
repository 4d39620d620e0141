#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "job/model/model_size.h"
#include "job/model/output_config.h"
#include "job/model/read_model_config.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/net_size.h"
#include "tests/job/model/test_configs.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Shortcuts, SayWhetherAnAllocationChoosesTheirRanks) {
  EXPECT_EQ(to_string(Shortcuts{}), "exact");
  EXPECT_EQ(to_string(Shortcuts{.rank = 8}), "auto");
}

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
        for (const std::optional<int64_t> most : {std::optional<int64_t>(), {0}, {3}}) {
          const ShortcutForm form = smallest_shortcut(k_in, k_out, 24, factors, most);
          EXPECT_LE(shortcut_parameters(form, k_in, k_out), k_in * k_out);
          EXPECT_LE(form.rank.value_or(0), most.value_or(24));
        }
      }
    }
  }
}

TEST(ShortcutForms, ARankIsAtMostTheExactOne) {
  const std::vector<int64_t> widths = {200, 200, 250, 240, 256};
  const auto ranks = [&](const Shortcuts& shortcuts) {
    std::vector<int64_t> found;
    for (const ShortcutForm& form : shortcut_forms(shortcuts, widths, 256, false)) {
      found.push_back(form.rank.value_or(-1));
    }
    return found;
  };
  EXPECT_THAT(ranks({}), ElementsAre(56, 6, 16, 0));
  EXPECT_THAT(ranks({.rank = 8}), ElementsAre(8, 6, 8, 0));
}

TEST(ShortcutForms, ChosenRanksAreThoseOfTheirSublayers) {
  const std::vector<int64_t> widths = {200, 200, 208, 200};
  const auto ranks = [&](const Shortcuts& shortcuts) {
    std::vector<int64_t> found;
    for (const ShortcutForm& form : shortcut_forms(shortcuts, widths, 256, true)) {
      found.push_back(form.rank.value_or(-1));
    }
    return found;
  };
  EXPECT_THAT(ranks({.rank = 8}), ElementsAre(8, 8, 16));
  EXPECT_THAT(ranks({.rank = 8, .ranks = {0, 60, 3}}), ElementsAre(0, 56, 11));
}

TEST(ShortcutForms, RanksToChooseFromAreMultiplesOfA256thOfTheModel) {
  EXPECT_THAT(possible_shortcut_ranks(12), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_EQ(possible_shortcut_ranks(256).front(), 85);
  EXPECT_EQ(possible_shortcut_ranks(8192).front(), 2720);
  EXPECT_EQ(possible_shortcut_ranks(8192).size(), 86u);
}

ResolvedJob job_of(std::optional<int64_t> rank, int64_t width, bool head_sliced = false) {
  ResolvedJob job = small_job(small_llama(), 1);
  job.maps.shortcuts.rank = rank;
  job.maps.head_sliced = head_sliced;
  job.widths = uniform_widths(small_llama(), head_sliced, width);
  return job;
}

NetSize size_of(const ResolvedJob& job) { return net_size(small_llama(), job, job.widths); }

/// Returns the config of an output of earlier versions, whose shortcuts are one matrix each.
ModelConfig with_matrices(const ResolvedJob& job) {
  ModelConfig output = output_model_config(small_llama(), job, job.widths);
  output.form.shortcuts.clear();
  return output;
}

TEST(ShortcutSizes, AJobOfTenPercentIsSmallerThanItsSource) {
  EXPECT_GT(stored_parameters(with_matrices(job_of({}, 232))), stored_parameters(small_llama()));
  EXPECT_LT(size_of(job_of({}, 232)).bytes_fraction(), 1.0);
  EXPECT_LT(size_of(job_of({}, 248)).bytes_fraction(), 1.0);
}

TEST(ShortcutSizes, AreWhatTheFactorsHold) {
  const int64_t matrices = stored_parameters(with_matrices(job_of({}, 200)));
  EXPECT_EQ(matrices - size_of(job_of({}, 200)).compressed_parameters,
            11 * (200 * 200 - 200 * 56) + 200 * 256);
  EXPECT_EQ(matrices - size_of(job_of(8, 200)).compressed_parameters,
            11 * (200 * 200 - 200 * 8) + 200 * 256);
  EXPECT_EQ(stored_parameters(with_matrices(job_of({}, 200, true))) -
                size_of(job_of({}, 200, true)).compressed_parameters,
            12 * (200 * 200 - 200 * 56));
}

TEST(ShortcutSizes, BelowHalfTheWidthExactOnesAreMatrices) {
  EXPECT_EQ(size_of(job_of({}, 120, true)).compressed_parameters,
            stored_parameters(with_matrices(job_of({}, 120, true))));
}

TEST(ShortcutSizes, GrowWithTheWidth) {
  for (const std::optional<int64_t> rank : {std::optional<int64_t>(), {0}, {8}, {100}}) {
    int64_t before = 0;
    for (int64_t k = 8; k <= 256; k += 8) {
      const int64_t parameters = size_of(job_of(rank, k)).compressed_parameters;
      EXPECT_GT(parameters, before) << rank.value_or(-1) << " at " << k;
      before = parameters;
    }
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
  for (const std::optional<int64_t> rank : {std::optional<int64_t>(), {8}}) {
    for (const int64_t width : {120, 200, 256}) {
      const ResolvedJob job = job_of(rank, width);
      const ModelConfig output = output_model_config(small_llama(), job, job.widths);
      const ModelConfig read = written_and_read(output);
      EXPECT_EQ(read.form.shortcuts, output.form.shortcuts) << rank.value_or(-1) << " at " << width;
      EXPECT_EQ(stored_parameters(read), stored_parameters(output));
    }
  }
}

TEST(ShortcutConfig, OfTwoFactorsIsReadAsItIsWritten) {
  const ResolvedJob job = job_of({}, 200);
  ModelConfig output = output_model_config(small_llama(), job, job.widths);
  for (ShortcutForm& form : output.form.shortcuts) form.factors = 2;
  output.form.shortcuts[3] = {.factors = 2};
  EXPECT_EQ(written_and_read(output).form.shortcuts, output.form.shortcuts);
  EXPECT_TRUE(written_and_read(output).shortcut(3).dense());
}

TEST(ShortcutConfig, OfAnOlderOutputIsOneMatrixEach) {
  const ModelConfig output = with_matrices(job_of({}, 200));
  EXPECT_FALSE(
      nlohmann::json::parse(output_config_json(kSource, output)).contains("shortcut_ranks"));
  EXPECT_TRUE(written_and_read(output).shortcut(11).dense());
}

TEST(ShortcutForms, OfObliqueMapsHaveTwoFactors) {
  const std::vector<int64_t> widths = {200, 200, 256};
  const auto forms = [&](const Shortcuts& shortcuts) {
    return shortcut_forms(shortcuts, widths, 256, /*oblique=*/true);
  };
  EXPECT_THAT(forms({}), testing::ElementsAre(ShortcutForm{56, 2}, ShortcutForm{56, 2}));
  EXPECT_THAT(forms({.rank = 8}), testing::ElementsAre(ShortcutForm{8, 2}, ShortcutForm{8, 2}));
  // The forms of shortcuts that are matrices still say that the maps are oblique.
  const ShortcutForm matrix{.factors = 2};
  EXPECT_THAT(shortcut_forms({}, std::vector<int64_t>{100, 100, 110}, 256, /*oblique=*/true),
              testing::ElementsAre(matrix, matrix));
}

TEST(ShortcutForms, ARankGrowsByWhatAnObliqueMapIsNarrower) {
  const std::vector<int64_t> widths = {208, 200, 216, 256};
  const Shortcuts eight{.rank = 8};
  EXPECT_THAT(shortcut_forms(eight, widths, 256, /*oblique=*/true),
              testing::ElementsAre(ShortcutForm{16, 2}, ShortcutForm{8, 2}, ShortcutForm{8, 2}));
  EXPECT_THAT(shortcut_forms(eight, widths, 256, /*oblique=*/false),
              testing::ElementsAre(ShortcutForm{8, 1}, ShortcutForm{8, 1}, ShortcutForm{0, 1}));
}

}  // namespace
}  // namespace dotresize
