// dotresize-worker whose transport between ranks blocks like NCCL's may.
#include "tests/comm/rendezvous_communicator.h"
#include "worker/commands/worker_program.h"

int main(int argc, char** argv) {
  using namespace dotresize;
  return run_worker(argc, argv, [](Communicator&, const WaitLimit& limit) {
    return std::make_unique<testing::RendezvousCommunicator>(MPI_COMM_WORLD, limit);
  });
}
