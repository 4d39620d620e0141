// Tests of NCCL's start. This file defines functions of NCCL and CUDA in place of their libraries,
// so failures of machines with GPUs can be produced anywhere.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/cuda/lonely_host.h"
#include "worker/cuda/nccl_communicator.h"

namespace {

int starts = 0;
int starts_that_succeed = 0;
std::atomic<int> aborts = 0;
std::chrono::seconds length_of_abort(0);
std::vector<int> max_ctas;  // one entry per start

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int,
                                    ncclConfig_t* config) {
  max_ctas.push_back(config->maxCTAs);
  *comm = reinterpret_cast<ncclComm_t>(&starts);
  return ++starts <= starts_that_succeed ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  ++aborts;
  std::this_thread::sleep_for(length_of_abort);  // the real one may wait for the peers forever
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "unhandled system error"; }
const char* ncclGetLastError(ncclComm_t) { return "no interface"; }

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInternalError; }
// The tests never reach these.
ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclInternalError; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*) { return ncclInternalError; }
ncclResult_t ncclGroupStart() { return ncclInternalError; }
ncclResult_t ncclGroupEnd() { return ncclInternalError; }
ncclResult_t ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclInternalError;
}
ncclResult_t ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
  return ncclInternalError;
}
ncclResult_t ncclBroadcast(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                           cudaStream_t) {
  return ncclInternalError;
}
ncclResult_t ncclReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                        cudaStream_t) {
  return ncclInternalError;
}
ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                           cudaStream_t) {
  return ncclInternalError;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned) { return cudaErrorNoDevice; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaErrorNoDevice; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaErrorNoDevice; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaErrorNoDevice; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaErrorNoDevice; }
cudaError_t cudaGetLastError() { return cudaErrorNoDevice; }
const char* cudaGetErrorString(cudaError_t) { return "no device"; }

}  // extern "C"

namespace c10::cuda {

CUDAStream getStreamFromPool(const bool, DeviceIndex) {
  return CUDAStream(CUDAStream::UNCHECKED, Stream(Stream::DEFAULT, Device(DeviceType::CUDA, 0)));
}
CUDAStream getCurrentCUDAStream(DeviceIndex) { return getStreamFromPool(false, 0); }
cudaStream_t CUDAStream::stream() const { return nullptr; }

}  // namespace c10::cuda

namespace dotresize {
namespace {

/// The failure is thrown, and thus logged and reported, before any call that may block.
TEST(NcclStart, FailureIsThrownBeforeAnyAbort) {
  for (starts_that_succeed = 0; starts_that_succeed < 3; ++starts_that_succeed) {
    starts = 0;
    LonelyHost host;
    try {
      const NcclCommunicator comm(host, wait_at_most(std::chrono::seconds(5)));
      FAIL() << "it has started";
    } catch (const CommunicationError& error) {
      EXPECT_STREQ(error.what(),
                   "start of NCCL failed in NCCL: unhandled system error: no interface");
    }
    EXPECT_EQ(starts, starts_that_succeed + 1);
    EXPECT_EQ(aborts, 0);
  }
}

/// Transfers wait on their multiprocessors while a stage computes there.
TEST(NcclStart, TransfersOccupyOneMultiprocessorAndCollectivesMore) {
  max_ctas.clear();
  starts = 0;
  starts_that_succeed = 2;
  LonelyHost host;
  EXPECT_THROW(NcclCommunicator(host, wait_at_most(std::chrono::seconds(5))), CommunicationError);
  EXPECT_THAT(max_ctas, testing::ElementsAre(1, 1, 4));
}

TEST(NcclEnd, AbortThatBlocksDoesNotKeepTheProcess) {
  starts = 0;
  starts_that_succeed = 1;
  length_of_abort = std::chrono::seconds(60);
  const auto start = std::chrono::steady_clock::now();
  { const NcclChannel channel({}, 2, 0, 1, wait_at_most(std::chrono::seconds(5))); }
  EXPECT_EQ(aborts, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace dotresize
