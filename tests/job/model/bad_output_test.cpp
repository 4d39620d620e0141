#include "tests/job/model/bad_config.h"

namespace dotresize {
namespace {

constexpr char kNarrowLlama[] = R"({"model_type": "dotresize", "source_model_type": "llama",
      "junction_widths": [6, 7, 8], "hidden_size": 8, "intermediate_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 10,
      "tie_word_embeddings": false})";

/// Returns a compressed glm4_moe whose second layer has two groups of four experts, with this list.
std::string glm4_moe_with_experts(const std::string& list) {
  return R"({"model_type": "dotresize", "source_model_type": "glm4_moe",
      "junction_widths": [8, 8, 8, 8, 8], "norm_weights": true, "hidden_size": 8,
      "intermediate_size": 16, "moe_intermediate_size": 4, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "vocab_size": 10,
      "n_routed_experts": 8, "num_experts_per_tok": 3, "n_group": 2, "topk_group": 1,
      "expert_counts": )" +
         list + "}";
}

std::vector<BadConfig> bad_junctions() {
  return {
      {"CompressedWithoutSource", without(kNarrowLlama, "source_model_type"),
       "source_model_type: is missing"},
      {"CompressedOfUnknownSource", put(kNarrowLlama, R"("source_model_type": "gpt2")"),
       "source_model_type: 'gpt2' is refused"},
      {"TooFewWidths", put(kNarrowLlama, R"("junction_widths": [6, 7])"),
       "junction_widths: must be a list of 3 widths"},
      {"WidthsAreNoList", put(kNarrowLlama, R"("junction_widths": 6)"),
       "junction_widths: must be a list of 3"},
      {"WidthAboveHiddenSize", put(kNarrowLlama, R"("junction_widths": [6, 9, 8])"),
       "junction_widths: 9 is not a whole number from 1 to 8"},
      {"WidthZero", put(kNarrowLlama, R"("junction_widths": [6, 0, 8])"),
       "junction_widths: 0 is not"},
      {"TooFewGroups",
       put(kNarrowLlama, R"("junction_widths": [6, 6, 8], "junction_groups": [0, 0])"),
       "junction_groups: must be a list of 3 numbers"},
      {"GroupsThatDescend",
       put(kNarrowLlama, R"("junction_widths": [6, 6, 8], "junction_groups": [1, 1, 0])"),
       "junction_groups: 0 is not a whole number from 1 to "},
      {"GroupOfTwoWidths", put(kNarrowLlama, R"("junction_groups": [0, 0, 1])"),
       "junction_groups: puts the widths 6 and 7 into one group"},
      {"TooFewShortcutRanks", put(kNarrowLlama, R"("shortcut_ranks": [1], "shortcut_factors": 1)"),
       "shortcut_ranks: must be a list of 2 ranks"},
      {"ShortcutRankAboveTheWidth",
       put(kNarrowLlama, R"("shortcut_ranks": [7, 0], "shortcut_factors": 1)"),
       "shortcut_ranks: 7 is not a whole number from 0 to 6"},
      {"ShortcutRankWithinAGroup",
       put(kNarrowLlama,
           R"("junction_widths": [6, 6, 8], "junction_groups": [0, 0, 1], "shortcut_ranks": [null, 0], "shortcut_factors": 1)"),
       "shortcut_ranks: is null within a group"},
      {"ShortcutsOfThreeFactors",
       put(kNarrowLlama, R"("shortcut_ranks": [1, 0], "shortcut_factors": 3)"),
       "shortcut_factors: 3 is not a whole number from 1 to 2"},
      {"ShortcutsWithoutTheirFactors", put(kNarrowLlama, R"("shortcut_ranks": [1, 0])"),
       "shortcut_factors: is missing"},
      {"TiedWithoutAProjection", put(kNarrowLlama, R"("tie_word_embeddings": true)"),
       "embedding_projection: is false, but the junction is 6 wide, and the common table "
       "hidden_size, 8"},
      {"TiedWithoutAProjectionOfTheHead",
       put(kNarrowLlama,
           R"("tie_word_embeddings": true, "junction_widths": [6, 7, 5], "embedding_projection": true)"),
       "head_projection: is false, but the junction is 5 wide"},
      {"ProjectionOfUntiedEmbeddings", put(kNarrowLlama, R"("head_projection": true)"),
       "head_projection: is true, but tie_word_embeddings is false"},
      {"NormWeightsOfANarrowModel", put(kNarrowLlama, R"("norm_weights": true)"),
       "norm_weights: is true, but there are junctions of less width"},
  };
}

std::vector<BadConfig> bad_layer_sizes() {
  return {
      {"TooManyIntermediateSizes", put(kNarrowLlama, R"("intermediate_sizes": [16, 16])"),
       "intermediate_sizes: must be a list of num_hidden_layers, 1, numbers of features"},
      {"IntermediateSizesAreNoList", put(kNarrowLlama, R"("intermediate_sizes": 16)"),
       "intermediate_sizes: must be a list"},
      {"IntermediateSizeAboveTheSources", put(kNarrowLlama, R"("intermediate_sizes": [17])"),
       "intermediate_sizes: 17 is not a whole number from 0 to 16"},
      {"IntermediateSizeZeroWithABias",
       put(kNarrowLlama, R"("mlp_bias": true, "intermediate_sizes": [0])"),
       "intermediate_sizes: 0 is not"},
      {"IntermediateSizeIsAFraction", put(kNarrowLlama, R"("intermediate_sizes": [8.5])"),
       "intermediate_sizes: 8.5 is not"},
      {"TooFewExpertCounts", glm4_moe_with_experts("[0]"),
       "expert_counts: must be a list of num_hidden_layers, 2, numbers of experts"},
      {"ExpertsOfALayerWithoutAMixture", glm4_moe_with_experts("[8, 8]"),
       "expert_counts: 8 is not a whole number from 0 to 0"},
      {"NoExpertsOfALayer", glm4_moe_with_experts("[0, 0]"),
       "expert_counts: 0 is not a whole number from 6 to 8"},
      {"MoreExpertsThanTheSourceHas", glm4_moe_with_experts("[0, 10]"),
       "expert_counts: 10 is not a whole number from 6 to 8"},
      {"FewerExpertsThanATokenHasInItsGroup", glm4_moe_with_experts("[0, 4]"),
       "expert_counts: 4 is not a whole number from 6 to 8"},
      {"ExpertsThatTheirGroupsDoNotShare", glm4_moe_with_experts("[0, 7]"),
       "expert_counts: 7 is not a multiple of 2, as layer 1 needs"},
      {"ExpertCountsAreFractions", glm4_moe_with_experts("[0, 6.5]"), "expert_counts: 6.5 is not"},
      {"TooManyValueHeadDims", put(kNarrowLlama, R"("value_head_dims": [4, 4])"),
       "value_head_dims: must be a list of num_hidden_layers, 1, numbers of value channels"},
      {"ValueHeadDimAboveHeadDim", put(kNarrowLlama, R"("value_head_dims": [5])"),
       "value_head_dims: 5 is not a whole number from 0 to 4"},
      {"ValueHeadDimZeroWithABias",
       put(kNarrowLlama, R"("attention_bias": true, "value_head_dims": [0])"),
       "value_head_dims: 0 is not"},
      {"StockModelWithValueHeadDims", put(kLlama31Config, R"("value_head_dims": [128])"),
       "value_head_dims: a model of the family llama has all value channels in every layer"},
  };
}

INSTANTIATE_TEST_SUITE_P(Junctions, BadConfigs, testing::ValuesIn(bad_junctions()), case_name_of);
INSTANTIATE_TEST_SUITE_P(LayerSizes, BadConfigs, testing::ValuesIn(bad_layer_sizes()),
                         case_name_of);

}  // namespace
}  // namespace dotresize
