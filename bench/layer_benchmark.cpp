// One decoder layer at its real width through the library's own code: random weights of the shapes
// that a config.json states, random tokens, time by phase. Google Benchmark's flags, and
//
//   layer_benchmark --config bench/configs/llama-3.1-8b.json --tokens 16384
//
// Phases: forward and fold of attention and MLP, and all others of the junction that the attention
// writes. A layer has two junctions: "layer_s" counts those phases twice. Threads: OMP_NUM_THREADS.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "job/model_config.h"
#include "worker/calibration/junction_estimator.h"
#include "worker/calibration/stage.h"
#include "worker/model/sublayer.h"
#include "worker/phase_clock.h"

namespace {

using namespace dotresize;

struct Options {
  std::filesystem::path config;
  int64_t tokens = 4096;
  int64_t seqlen = 2048;
  double sparsity = 0.2;
};

ModelConfig read_config(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return parse_model_config(text.str(), file.string());
}

at::Tensor random_tensor(const std::vector<int64_t>& shape) { return at::randn(shape).mul_(0.02); }

/// Of a dense sublayer in float32, without biases.
SublayerWeights random_sublayer(const ModelConfig& config, int64_t sublayer) {
  const int64_t d = config.hidden_size;
  const SublayerLayout layout = sublayer_layout(config, sublayer, d, d);
  SublayerWeights weights;
  weights.sublayer = sublayer;
  weights.norm = at::ones({d});
  for (const LinearLayout& reader : layout.readers) {
    weights.readers.push_back({random_tensor(reader.weight.shape), {}});
  }
  for (const LinearLayout& writer : layout.writers) {
    weights.writers.push_back({random_tensor(writer.weight.shape), {}});
  }
  return weights;
}

/// The stream in microbatches, as calibration has it; channels of falling size.
std::vector<at::Tensor> random_stream(const ModelConfig& config, const Options& options) {
  const at::Tensor sizes = at::linspace(0, -3, config.hidden_size).exp();
  const int64_t samples = microbatch_samples(options.seqlen);
  std::vector<at::Tensor> stream;
  for (int64_t begin = 0; begin < options.tokens; begin += samples * options.seqlen) {
    stream.push_back(at::randn({samples, options.seqlen, config.hidden_size}).mul_(sizes));
  }
  return stream;
}

class Layer {
 public:
  explicit Layer(const Options& options)
      : options_(options),
        config_(read_config(options.config)),
        rotary_(make_rotary_table(config_, options.seqlen)),
        stream_(random_stream(config_, options)) {
    map_.width =
        static_cast<int64_t>((1 - options.sparsity) * static_cast<double>(config_.hidden_size)) /
        64 * 64;
  }

  /// Seconds by phase.
  std::map<std::string, double> run() {
    const SublayerWeights attention = random_sublayer(config_, 0);
    forward(attention);
    const JunctionMap map = solve_junction();
    fold(attention, map);
    const SublayerWeights mlp = random_sublayer(config_, 1);
    forward(mlp);
    stream_.clear();
    fold(mlp, map);
    return clock_.seconds();
  }

 private:
  void forward(const SublayerWeights& weights) {
    const PhaseClock::Scope scope(clock_, "forward");
    for (at::Tensor& x : stream_) x = sublayer_forward(config_, weights, rotary_, x);
  }

  JunctionMap solve_junction() {
    JunctionEstimator estimator(1, config_.hidden_size, map_, clock_);
    for (const at::Tensor& x : stream_) estimator.add(x);
    estimator.decompose(options_.tokens);
    for (const at::Tensor& x : stream_) estimator.add_rotated(x);
    return estimator.solve(options_.tokens).map;
  }

  void fold(const SublayerWeights& weights, const JunctionMap& map) {
    const PhaseClock::Scope scope(clock_, "fold");
    benchmark::DoNotOptimize(fold_output(fold_input(weights, map.M_inv), map.M));
  }

  Options options_;
  ModelConfig config_;
  RotaryTable rotary_;
  MapOptions map_;
  PhaseClock clock_;
  std::vector<at::Tensor> stream_;
};

void run_layer(benchmark::State& state, const Options& options) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(1);
  for (auto _ : state) {
    double junction = 0.0;
    double sublayers = 0.0;
    for (const auto& [phase, seconds] : Layer(options).run()) {
      state.counters[phase + "_s"] = seconds;
      (phase == "forward" || phase == "fold" ? sublayers : junction) += seconds;
    }
    state.counters["layer_s"] = sublayers + 2 * junction;
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Options options;
  CLI::App app("One decoder layer at its real width, time by phase");
  app.add_option("--config", options.config, "config.json of a dense model")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--tokens", options.tokens)->capture_default_str();
  app.add_option("--seqlen", options.seqlen)->capture_default_str();
  app.add_option("--sparsity", options.sparsity)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const std::string name =
      "layer/" + options.config.stem().string() + "/" + std::to_string(options.tokens);
  benchmark::RegisterBenchmark(name.c_str(), run_layer, options)
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
  benchmark::RunSpecifiedBenchmarks();
}
