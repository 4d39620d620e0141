// dump_maps MODEL TOKENS WIDTH DIR CASE...: writes the support, M and (for oblique maps) M_inv of
// every junction to DIR/CASE/junction-NN.safetensors, so that a test can compare the maps of
// different numbers of ranks. Runs under mpirun. A CASE is
// METHOD:pipeline|layerwise|token_parallel:own|shared. METHOD may be followed by a comma and the
// metric. The metric fisher may be followed by another comma and float16, the dtype of the
// computation. All windows of 128 tokens are used.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "job/model/read_model_config.h"
#include "job/plan/method.h"
#include "worker/calibration/calibration_job.h"
#include "worker/calibration/schedules/schedules.h"
#include "worker/checkpoint/tokens.h"
#include "worker/checkpoint/writer.h"
#include "worker/comm/mpi_communicator.h"

namespace dotresize {
namespace {

class NoOutput final : public FoldedModelSink {
 public:
  void begin(const JunctionWidths&) override {}
  void put_end(TensorRole, const at::Tensor&, int64_t) override {}
  void put_sublayer(const SublayerWeights&) override {}
  const ModelConfig& output() const override { return output_; }

 private:
  ModelConfig output_;
};

/// Writes the map of every mapped junction.
void write_maps(const std::filesystem::path& dir, const CalibrationJob& job) {
  for (int64_t junction = 0; junction < job.widths.mapped_count; ++junction) {
    const auto found = job.journal.get(entries::kMap(job.map_of(junction)));
    ShardLayout layout;
    ShardLayout::Shard& shard = layout.shards.emplace_back();
    shard.file = fmt::format("junction-{:02}.safetensors", junction);
    std::set<std::string> names;
    for (const auto& [name, tensor] : found) {
      shard.tensors.push_back({name, at::kDouble, tensor.sizes().vec()});
      names.insert(name);
    }
    create_shards(dir, layout);
    ShardWriter writer(dir, layout, names);
    for (const auto& [name, tensor] : found) writer.write(name, tensor.to(at::kDouble));
    writer.finish();
  }
}

struct Case {
  std::string method, schedule, sharing;
};

Case read_case(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  return {text.substr(0, first), text.substr(first + 1, second - first - 1),
          text.substr(second + 1)};
}

/// Divides the sublayers evenly.
ShardPlan even_plan(const ModelConfig& config, int ranks) {
  // Checkpoints depend on the number of ranks here: they must not change a bit.
  const Checkpoints checkpoints =
      std::array{Checkpoints::kSublayers, Checkpoints::kNone, Checkpoints::kStage}.at(
          static_cast<size_t>(ranks % 3));
  // Junctions solved together: as many as ranks, but 3 with 4 ranks.
  const int64_t together = ranks == 4 ? 3 : ranks;
  ShardPlan plan;
  for (int rank = 0; rank < ranks; ++rank) {
    plan.ranks.push_back({.first_sublayer = config.num_sublayers() * rank / ranks,
                          .end_sublayer = config.num_sublayers() * (rank + 1) / ranks,
                          .size = {},
                          .solved_together = together,
                          .checkpoints = checkpoints});
  }
  return plan;
}

void dump(Communicator& comm, const char* model, const char* token_file, int64_t width,
          const std::filesystem::path& dir, const Case& wanted) {
  const ModelConfig config = read_model_config(model);
  const CheckpointReader reader(model, config);
  const TokenFile tokens = read_tokens(token_file, config.vocab_size);
  const ShardPlan plan = even_plan(config, comm.size());
  const std::filesystem::path journal_dir = dir / "journal";
  std::filesystem::create_directories(journal_dir);
  comm.barrier();
  Journal journal(journal_dir);
  comm.barrier();
  const std::string& name = wanted.method;
  const Method& method = method_named(name.substr(0, name.find(',')));
  const Metric metric =
      name.find(",fisher") != std::string::npos ? Metric::kFisher : Metric::kActivation;
  const CalibrationJob job{
      .config = config,
      .reader = reader,
      .plan = plan,
      .journal = journal,
      .finished = {},
      .windows = evaluation_windows(tokens.tokens, 128),
      .map = {.basis = method.basis, .kind = method.map, .metric = metric},
      .widths = uniform_widths(config, /*head_sliced=*/true, width),
      .compute_dtype = name.ends_with(",float16") ? at::kHalf : at::kFloat,
      .shared_map = wanted.sharing == "shared",
  };
  const CalibrationObserver observer{[](int64_t) {}, [](int64_t) {}, [](int64_t) {}};
  NoOutput sink;
  PhaseClock clock;
  calibrate_function(wanted.schedule)(comm, job, sink, observer, clock);
  comm.barrier();
  if (comm.rank() == 0) write_maps(dir, job);
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  if (argc < 6) return 64;
  MPI_Init(&argc, &argv);
  try {
    const c10::InferenceMode no_autograd;
    at::set_num_threads(1);
    dotresize::MpiCommunicator comm(MPI_COMM_WORLD,
                                    dotresize::wait_at_most(std::chrono::seconds(60)));
    for (const std::string& name : std::vector<std::string>(argv + 5, argv + argc)) {
      dotresize::dump(comm, argv[1], argv[2], std::stoll(argv[3]),
                      std::filesystem::path(argv[4]) / name, dotresize::read_case(name));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
