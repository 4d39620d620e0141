#include "tests/job/model/bad_config.h"

namespace dotresize {
namespace {

std::vector<BadConfig> bad_experts() {
  return {
      {"GptOssWithoutALimit", put(kGptOssConfig, R"("swiglu_limit": 0)"), "swiglu_limit: 0 is not"},
      {"GptOssWhoseLimitIsNull", put(kGptOssConfig, R"("swiglu_limit": null)"),
       "swiglu_limit: is null"},
      {"SharedExpertWithoutSize", without(kQwen2MoeConfig, "shared_expert_intermediate_size"),
       "shared_expert_intermediate_size: is missing"},
      {"SharedExpertOfNoSize", put(kQwen2MoeConfig, R"("shared_expert_intermediate_size": 0)"),
       "shared_expert_intermediate_size: 0 is not a whole number from 1 to 4194304"},
      {"Qwen2MoeBiasesAreNull", put(kQwen2MoeConfig, R"("qkv_bias": null)"), "qkv_bias: is null"},
      {"Qwen2MoeWithWindows", put(kQwen2MoeConfig, R"("use_sliding_window": true)"),
       "use_sliding_window: true is refused; only false is supported"},
      {"Qwen2MoeWithAWindow",
       put(kQwen2MoeConfig, R"("num_hidden_layers": 1, "layer_types": ["sliding_attention"])"),
       "layer_types: sliding_attention contradicts use_sliding_window, false"},
      {"Qwen2MoeWithAnotherActivation", put(kQwen2MoeConfig, R"("hidden_act": "gelu")"),
       "hidden_act: 'gelu' is refused"},
      {"NoGroupsOfExperts", put(kGlm4MoeConfig, R"("n_group": 0)"),
       "n_group: 0 is not a whole number"},
      {"GroupsThatDoNotDivide", put(kGlm4MoeConfig, R"("n_group": 3)"),
       "n_group: 3 does not divide n_routed_experts, 160, into groups of two or more"},
      {"GroupsOfOne", put(kGlm4MoeConfig, R"("n_group": 160)"),
       "n_group: 160 does not divide n_routed_experts, 160, into groups of two or more"},
      {"MoreGroupsPerTokenThanThereAre", put(kGlm4MoeConfig, R"("topk_group": 2)"),
       "topk_group: 2 is above n_group, 1"},
      {"MoreExpertsPerTokenThanItsGroupsHave", put(kGlm4MoeConfig, R"("n_group": 40)"),
       "num_experts_per_tok: 8 is above the experts of topk_group groups, 4"},
      {"NoSharedExperts", put(kGlm4MoeConfig, R"("n_shared_experts": 0)"),
       "n_shared_experts: 0 is not a whole number"},
      {"SharedExpertsAreNull", put(kGlm4MoeConfig, R"("n_shared_experts": null)"),
       "n_shared_experts: is null"},
      {"NegativeScaleOfRouting", put(kGlm4MoeConfig, R"("routed_scaling_factor": -1)"),
       "routed_scaling_factor: -1 is not"},
      {"DenseLayersBelowNone", put(kGlm4MoeConfig, R"("first_k_dense_replace": -1)"),
       "first_k_dense_replace: -1 is not"},
      {"NormsOfHeadsNeitherThereNorNot", put(kGlm4MoeConfig, R"("use_qk_norm": 1)"),
       "use_qk_norm: 1 is neither"},
      {"NoExperts", put(kMixtralConfig, R"("num_local_experts": 0)"),
       "num_local_experts: 0 is not a whole number from 1 to 2048"},
      {"ExpertsNotCounted", without(kMixtralConfig, "num_local_experts"),
       "num_local_experts: is missing"},
      {"Qwen3MoeExpertsNotCounted", without(kQwen3MoeConfig, "num_experts"),
       "num_experts: is missing"},
      {"ExpertCountsContradict",
       put(kQwen3MoeConfig, R"("num_experts": 128, "num_local_experts": 64)"),
       "num_local_experts: contradicts num_experts, 128"},
      {"MoreExpertsPerTokenThanThereAre", put(kMixtralConfig, R"("num_experts_per_tok": 9)"),
       "num_experts_per_tok: 9 is above 8, the number of experts"},
      {"NoExpertsPerToken", put(kMixtralConfig, R"("num_experts_per_tok": 0)"),
       "num_experts_per_tok: 0 is not a whole number"},
      {"ExpertsWithoutSize", without(kQwen3MoeConfig, "moe_intermediate_size"),
       "moe_intermediate_size: is missing"},
      {"ExpertsTooLarge", put(kQwen3MoeConfig, R"("moe_intermediate_size": 32769)"),
       "moe_intermediate_size: 32769 rows in each of 128 experts are above 4194304 together"},
      {"DenseLayerBeyondTheLast", put(kQwen3MoeConfig, R"("mlp_only_layers": [48])"),
       "mlp_only_layers: 48 is not a whole number from 0 to 47"},
      {"DenseLayersAreNoList", put(kQwen3MoeConfig, R"("mlp_only_layers": 3)"),
       "mlp_only_layers: must be a list"},
      {"SparseStepZero", put(kQwen3MoeConfig, R"("decoder_sparse_step": 0)"),
       "decoder_sparse_step: 0 is not"},
      {"RoutingNeitherNormedNorNot", put(kQwen3MoeConfig, R"("norm_topk_prob": 1)"),
       "norm_topk_prob: 1 is neither true nor false"},
  };
}

INSTANTIATE_TEST_SUITE_P(Experts, BadConfigs, testing::ValuesIn(bad_experts()), case_name_of);

}  // namespace
}  // namespace dotresize
