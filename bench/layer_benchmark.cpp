// Times one decoder layer at its real width, through the library's own code, by phase. Weights are
// random, with the shapes that a config.json states; the input is random too. Takes Google
// Benchmark's flags, and
//
//   layer_benchmark --config bench/configs/llama-3.1-8b.json --tokens 16384
//
// Phases: forward and fold of attention and MLP, and all others of the junction that the attention
// writes. A layer has two junctions, so "layer_s" counts those phases twice. Folds are those of
// bfloat16 output. Threads: OMP_NUM_THREADS. With --device cuda the GPU computes, in the 16-bit
// dtype that a job would take, and "peak_GiB" is its peak memory. Without a GPU the program says so
// and exits with 0.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/phase_clock.h"
#include "job/model/read_model_config.h"
#include "job/plan/block_sizes.h"
#include "worker/calibration/junction_passes.h"
#include "worker/cuda/cuda_module.h"
#include "worker/transformer/fold_sublayer.h"
#include "worker/transformer/forward.h"
#include "worker/transformer/rotary.h"
#include "worker/transformer/stage/stage.h"

namespace {

using namespace dotresize;

struct Options {
  std::filesystem::path config;
  int64_t tokens = 4096;
  int64_t seqlen = 2048;
  double sparsity = 0.2;
  std::string device = "cpu";
};

/// The device and dtype of the layer's computation.
struct Place {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  CudaModule* cuda = nullptr;

  MarkMoment mark() const {
    if (cuda == nullptr) return nullptr;
    return [module = cuda] { return module->mark(); };
  }
};

Place first_gpu() {
  CudaModule& cuda = open_cuda_module();
  cuda.use(0);
  return {at::Device(at::kCUDA, 0), cuda.info(0).capability >= 80 ? at::kBFloat16 : at::kHalf,
          &cuda};
}

ModelConfig read_config(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return parse_model_config(text.str(), file.string());
}

/// Returns random weights of a dense sublayer in float32.
SublayerWeights random_sublayer(const ModelConfig& config, int64_t sublayer) {
  const int64_t d = config.hidden_size;
  return make_weights(sublayer, sublayer_tensors(config, sublayer, SublayerForm::kDense, d, d),
                      [](const StoredTensor& tensor) {
                        return tensor.role == TensorRole::kNorm
                                   ? at::ones(tensor.shape)
                                   : at::randn(tensor.shape).mul_(0.02);
                      });
}

/// Returns a stream in microbatches, as in calibration, with channels of falling size.
std::vector<at::Tensor> random_stream(const ModelConfig& config, const Options& options,
                                      at::Device device) {
  const at::Tensor sizes = at::linspace(0, -3, config.hidden_size).exp();
  const int64_t samples = microbatch_samples(options.seqlen);
  std::vector<at::Tensor> stream;
  for (int64_t begin = 0; begin < options.tokens; begin += samples * options.seqlen) {
    stream.push_back(
        at::randn({samples, options.seqlen, config.hidden_size}).mul_(sizes).to(device));
  }
  return stream;
}

class Layer {
 public:
  Layer(const Options& options, const Place& place)
      : options_(options),
        place_(place),
        config_(read_config(options.config)),
        context_(make_layer_context(config_, options.seqlen, place.device)),
        clock_(/*keeps_spans=*/false, place.mark()),
        stream_(random_stream(config_, options, place.device)) {
    width_ =
        static_cast<int64_t>((1 - options.sparsity) * static_cast<double>(config_.hidden_size)) /
        64 * 64;
  }

  /// Runs the layer and returns seconds by phase.
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
    const SublayerWeights there = to_device(to_dtype(weights, place_.dtype), place_.device);
    for (at::Tensor& x : stream_) x = sublayer_forward(config_, there, context_, x);
  }

  JunctionMap solve_junction() {
    const JunctionSetup setup{1, config_.hidden_size, map_, clock_, place_.device};
    FirstPass first(setup);
    for (const at::Tensor& x : stream_) first.add(x);
    DecomposedJunction junction = std::move(first).finish(options_.tokens);
    const at::Tensor rotation = junction.rotation();
    CostSums second(setup, rotation);
    for (const at::Tensor& x : stream_) second.add(x);
    return std::move(junction).solve(width_, std::move(second)).solution.map;
  }

  void fold(const SublayerWeights& weights, const JunctionMap& map) {
    const PhaseClock::Scope scope(clock_, "fold");
    const at::ScalarType dtype = fold_dtype(Dtype::kBFloat16);
    benchmark::DoNotOptimize(
        fold_output(fold_input(weights, map.M_inv.to(dtype)), map.M.to(dtype)));
  }

  Options options_;
  Place place_;
  ModelConfig config_;
  LayerContext context_;
  MapOptions map_;
  int64_t width_;
  PhaseClock clock_;
  std::vector<at::Tensor> stream_;
};

void run_layer(benchmark::State& state, const Options& options, const Place& place) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(1);
  for (auto _ : state) {
    double junction = 0.0;
    double sublayers = 0.0;
    for (const auto& [phase, seconds] : Layer(options, place).run()) {
      state.counters[phase + "_s"] = seconds;
      (phase == "forward" || phase == "fold" ? sublayers : junction) += seconds;
    }
    state.counters["layer_s"] = sublayers + 2 * junction;
    if (place.cuda) {
      state.counters["peak_GiB"] = 0x1p-30 * static_cast<double>(place.cuda->memory().peak);
    }
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
  app.add_option("--device", options.device)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Place place;
  if (options.device == "cuda") {
    if (const std::string reason = ask_driver().fault; !reason.empty()) {
      std::printf("layer_benchmark: nothing to measure: %s\n", reason.c_str());
      return 0;
    }
    place = first_gpu();
  }
  const std::string name = "layer/" + options.config.stem().string() + "/" +
                           std::to_string(options.tokens) + "/" + options.device;
  benchmark::RegisterBenchmark(name.c_str(), run_layer, options, place)
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
  benchmark::RunSpecifiedBenchmarks();
}
