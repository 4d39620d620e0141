// dump_maps MODEL TOKENS METHOD WIDTH pipeline|layerwise|token_parallel DIR own|shared: writes the
// support, M and (for oblique maps) M_inv of every junction to DIR/junction-NN.safetensors, so that
// a test can compare the maps of different numbers of ranks. Runs under mpirun. METHOD may be
// followed by a comma and the metric. The metric fisher may be followed by another comma and
// float16, the dtype of the computation. All windows of 128 tokens are used.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <mpi.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

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
void write_maps(const std::string& dir, const CalibrationJob& job) {
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

void dump(char** argv) {
  const c10::InferenceMode no_autograd;
  at::set_num_threads(1);
  MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(std::chrono::seconds(60)));
  const ModelConfig config = read_model_config(argv[1]);
  const CheckpointReader reader(argv[1], config);
  const TokenFile tokens = read_tokens(argv[2], config.vocab_size);
  // Checkpoints depend on the number of ranks here: they must not change a bit.
  const Checkpoints checkpoints =
      std::array{Checkpoints::kSublayers, Checkpoints::kNone, Checkpoints::kStage}.at(
          static_cast<size_t>(comm.size() % 3));
  // Junctions solved together: as many as ranks, but 3 with 4 ranks.
  const int64_t together = comm.size() == 4 ? 3 : comm.size();
  ShardPlan plan;
  for (int rank = 0; rank < comm.size(); ++rank) {
    plan.ranks.push_back({.first_sublayer = config.num_sublayers() * rank / comm.size(),
                          .end_sublayer = config.num_sublayers() * (rank + 1) / comm.size(),
                          .size = {},
                          .solved_together = together,
                          .checkpoints = checkpoints});
  }
  const std::filesystem::path journal_dir = std::filesystem::path(argv[6]) / "journal";
  std::filesystem::create_directory(journal_dir);
  comm.barrier();
  Journal journal(journal_dir);
  comm.barrier();
  const std::string name = argv[3];
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
      .widths = uniform_widths(config, /*head_sliced=*/true, std::stoll(argv[4])),
      .compute_dtype = name.ends_with(",float16") ? at::kHalf : at::kFloat,
      .shared_map = std::string_view(argv[7]) == "shared",
  };
  const CalibrationObserver observer{[](int64_t) {}, [](int64_t) {}, [](int64_t) {}};
  NoOutput sink;
  PhaseClock clock;
  calibrate_function(argv[5])(comm, job, sink, observer, clock);
  comm.barrier();
  if (comm.rank() == 0) write_maps(argv[6], job);
}

}  // namespace
}  // namespace dotresize

int main(int argc, char** argv) {
  if (argc != 8) return 64;
  MPI_Init(&argc, &argv);
  try {
    dotresize::dump(argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
