#include "worker/evaluation/latency.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>

namespace dotresize {
namespace {

template <class Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto percentile = [&](double fraction) {
    const double place = fraction * static_cast<double>(samples.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, samples.size() - 1);
    return std::lerp(samples[below], samples[above], place - static_cast<double>(below));
  };
  return {percentile(0.5), percentile(0.1), percentile(0.9)};
}

at::Tensor latency_ids(const LatencyOptions& options, int64_t vocab_size) {
  const at::Generator generator = at::detail::createCPUGenerator(options.seed);
  return at::randint(0, vocab_size, {options.batch, options.tokens()}, generator, at::kLong);
}

LatencySamples measure_latency(const WholeModel& model, const LatencyOptions& options,
                               const std::function<void(int64_t tokens)>& after_run) {
  const at::Tensor ids = latency_ids(options, model.config.vocab_size);
  LatencySamples samples;
  for (int64_t run = -options.warmup; run < options.repetitions; ++run) {
    Decoder decoder(model, options.batch, options.tokens());
    const double prompt = milliseconds([&] { decoder.read(ids.narrow(1, 0, options.prompt)); });
    const double decode = milliseconds([&] {
      for (int64_t i = options.prompt; i < options.tokens(); ++i) decoder.read(ids.narrow(1, i, 1));
    });
    if (run >= 0) {
      samples.prompt_ms.push_back(prompt / static_cast<double>(options.prompt));
      samples.decode_ms.push_back(decode / static_cast<double>(options.decode));
    }
    after_run(ids.numel());
  }
  return samples;
}

}  // namespace dotresize
