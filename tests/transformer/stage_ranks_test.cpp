// Runs under mpirun: the ranks run the stages of one random model over a communicator whose
// transfers block both ranks. Each rank compares its junction activations with those of the model
// in one process.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <map>
#include <utility>
#include <vector>

#include "tests/comm/rendezvous_communicator.h"
#include "tests/transformer/whole_model.h"
#include "worker/evaluation/whole_model.h"
#include "worker/transformer/gradient/gradient_stream.h"

namespace dotresize::testing {
namespace {

/// Longer than any transfer of this model takes on a busy machine.
constexpr std::chrono::seconds kStall(15);
constexpr int64_t kSeqlen = 64;

/// Activations by junction, one tensor per microbatch.
using Visits = std::map<int64_t, std::vector<at::Tensor>>;

JunctionVisitor keep_in(Visits& visits) {
  return
      [&visits](int64_t junction, const at::Tensor& x) { visits[junction].push_back(x.clone()); };
}

class StagesOverRanks : public ::testing::Test {
 protected:
  StagesOverRanks()
      : notes_(MPI_COMM_WORLD, wait_at_most(kStall)),
        blocking_(MPI_COMM_WORLD, wait_at_most(kStall)),
        comm_(notes_, blocking_) {
    ModelConfig config = tiny_config();
    config.layers.resize(4, config.layers.front());
    config.form.junction_widths.assign(config.num_junctions(), config.hidden_size);
    model_ = random_model(config, 1);
    windows_ = random_ids(config, {60, kSeqlen}, 2);  // seven microbatches of 8, one of 4
  }

  /// Returns the stage of `comm`'s rank.
  Stage stage_of(const Communicator& comm) const {
    const int64_t count = model_.config.num_sublayers();
    Stage stage;
    stage.first_sublayer = count * comm.rank() / comm.size();
    const int64_t end = count * (comm.rank() + 1) / comm.size();
    stage.sublayers.assign(model_.sublayers.begin() + stage.first_sublayer,
                           model_.sublayers.begin() + end);
    stage.embed = [this](const at::Tensor& ids) { return embed(model_.embedding, ids); };
    return stage;
  }

  Visits forward(Communicator& comm) const {
    Visits visits;
    stream_through_stages(comm, model_.config, stage_of(comm), windows_, keep_in(visits),
                          [](int64_t) {});
    return visits;
  }

  std::pair<Visits, Visits> there_and_back(Communicator& comm) const {
    std::pair<Visits, Visits> visits;
    PhaseClock clock;
    const std::vector<int64_t> in_order;
    const LossOfWindows loss{windows_, label_gradient(model_.config, model_.head, in_order)};
    stream_gradients(
        comm, model_.config, stage_of(comm), loss, keep_in(visits.first), keep_in(visits.second),
        [](int64_t) {}, clock);
    return visits;
  }

  /// Expects this rank's visits among those of the model in one process.
  static void expect_in(const Visits& mine, const Visits& all) {
    EXPECT_FALSE(mine.empty());
    for (const auto& [junction, visited] : mine) {
      const std::vector<at::Tensor>& expected = all.at(junction);
      ASSERT_EQ(visited.size(), expected.size());
      for (size_t m = 0; m < visited.size(); ++m) {
        EXPECT_TRUE(at::equal(visited[m], expected[m])) << "junction " << junction << ", " << m;
      }
    }
  }

  MpiCommunicator notes_;
  RendezvousCommunicator blocking_;
  AnnouncedCommunicator comm_;
  SelfCommunicator alone_;
  WholeModel model_;
  at::Tensor windows_;
};

TEST_F(StagesOverRanks, ForwardIsThatOfOneProcess) {
  const c10::InferenceMode no_autograd;
  expect_in(forward(comm_), forward(alone_));
}

TEST_F(StagesOverRanks, GradientsAreThoseOfOneProcess) {
  const auto [mine, my_gradients] = there_and_back(comm_);
  const auto [all, all_gradients] = there_and_back(alone_);
  expect_in(mine, all);
  expect_in(my_gradients, all_gradients);
}

}  // namespace
}  // namespace dotresize::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  at::set_num_threads(1);
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) MPI_Abort(MPI_COMM_WORLD, 1);  // another rank may wait for one that gave up
  MPI_Finalize();
  return 0;
}
