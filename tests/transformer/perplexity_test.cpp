#include "worker/evaluation/perplexity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/transformer/whole_model.h"
#include "worker/checkpoint/reader.h"
#include "worker/transformer/forward.h"

namespace dotresize::testing {
namespace {

const std::filesystem::path kSource = DOTRESIZE_SOURCE_DIR;

/// Returns the sums of one microbatch. x: [batch, seqlen, k_2L] float32.
NegativeLogLikelihood window_nll(const ModelConfig& config, const HeadWeights& head,
                                 const at::Tensor& x, const at::Tensor& ids) {
  const at::Tensor states =
      final_state(config, head, x.reshape({-1, x.size(-1)}), head.weight.scalar_type());
  return vocabulary_sums(vocabulary_of(head.weight, config.logit_cap), {states}, {ids}, nullptr)
      .front()
      .loss;
}

TEST(Perplexity, OfTheExampleModelIsTheReferences) {
  const c10::InferenceMode inference;
  const WholeModel model = load_model(kSource / "examples/docs-llama");
  const SafetensorsFile file(kSource / "tests/data/evaluation.safetensors");
  const at::Tensor windows = file.tensor("tokens").to(at::kLong);
  NegativeLogLikelihood total;
  for (const at::Tensor& ids : windows.split(8)) {
    const NegativeLogLikelihood part =
        window_nll(model.config, model.head, last_stream(model, ids), ids);
    total.nll += part.nll;
    total.tokens += part.tokens;
  }
  EXPECT_EQ(total.tokens, 64 * 511);
  const double golden = 26.03347855704398;  // dense_perplexity in tests/data/golden.json
  EXPECT_NEAR(total.perplexity(), golden, 1e-4 * golden);
}

// Returns [batch, seqlen - 1] float64, computed without blocks.
at::Tensor direct_nll(const at::Tensor& all_logits, const at::Tensor& ids) {
  const int64_t predicted = ids.size(1) - 1;
  const at::Tensor likelihood = at::log_softmax(all_logits.to(at::kDouble), -1);
  return -likelihood.narrow(1, 0, predicted)
              .gather(2, ids.narrow(1, 1, predicted).unsqueeze(2))
              .squeeze(2);
}

TEST(WindowNll, EqualsADirectComputation) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 1);
  const at::Tensor ids = random_ids(model.config, {3, 17}, 2);
  const NegativeLogLikelihood result =
      window_nll(model.config, model.head, last_stream(model, ids), ids);
  const double expected = direct_nll(logits(model, ids), ids).sum().item<double>();
  EXPECT_EQ(result.tokens, 3 * 16);
  EXPECT_NEAR(result.nll, expected, 1e-5 * expected);
}

// Tokens and vocabulary need several blocks, the last of which is short.
TEST(WindowNll, CrossesBlocks) {
  const c10::InferenceMode inference;
  ModelConfig config = tiny_config();
  config.vocab_size = 100'000;
  at::manual_seed(3);
  HeadWeights head;
  head.weight = at::randn({config.vocab_size, config.hidden_size}, at::kFloat);
  const at::Tensor x = at::randn({5, 67, config.hidden_size}, at::kFloat);
  const at::Tensor ids = random_ids(config, {5, 67}, 4);
  double expected = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor window_logits = head_forward(config, head, x.narrow(0, i, 1));
    expected += direct_nll(window_logits, ids.narrow(0, i, 1)).sum().item<double>();
  }
  EXPECT_NEAR(window_nll(config, head, x, ids).nll, expected, 1e-5 * expected);
}

TEST(WindowNll, RefusesAStreamThatIsNotFinite) {
  const c10::InferenceMode inference;
  const WholeModel model = random_model(tiny_config(), 5);
  const at::Tensor ids = random_ids(model.config, {1, 8}, 6);
  at::Tensor x = last_stream(model, ids);
  x[0][3][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(window_nll(model.config, model.head, x, ids), std::runtime_error);
}

}  // namespace
}  // namespace dotresize::testing
