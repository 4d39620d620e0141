#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/comm/communicator.h"
#include "worker/cuda/choose_device.h"
#include "worker/kernels/cuda_kernels.h"
#include "worker/kernels/svd.h"

namespace dotresize {

/// The device and kernels of this rank that are tested.
struct SelfTestSubject {
  at::Device device = at::kCPU;
  std::string name;  ///< device name, for people
  at::ScalarType compute_dtype = at::kFloat;
  CudaKernels kernels;  ///< kernels for tensors on the device; null ones are skipped
};

/// Returns this rank's device with its kernels.
SelfTestSubject self_test_subject(const ChosenDevice& device, at::ScalarType compute_dtype);

/// Times of one decomposition by each driver.
struct SvdSeconds {
  double gesvd = 0.0;
  double gesvdj = 0.0;
};

/// Returns QR iteration, unless Jacobi's method takes less than four fifths of its time. Closer
/// results may be reversed in the next run.
SvdDriver faster_svd(const SvdSeconds& seconds);

struct SelfTestResult {
  double seconds = 0.0;
  std::optional<SvdSeconds> svd;  ///< times on rank 0's GPU; absent on the CPU
  /// Bytes a second between ranks r and r + 1: there, then back.
  std::vector<int64_t> link_speeds;
};

/// Runs small problems on every rank's device (our kernels, a product in the compute dtype, eigh
/// and svd in float64) and compares the results with the CPU's. Times svd by both drivers. Then
/// neighbouring ranks send each other known bytes over `comm`, both ways, from device to device.
/// Takes a second or two on a GPU, mostly to start its libraries; less on the CPU. Collective. If a
/// result is wrong, all ranks throw InputError for resources.device, naming rank, device and the
/// failed test. A failed transfer throws CommunicationError on its rank.
SelfTestResult self_test(const SelfTestSubject& subject, Communicator& comm);

/// Formats "self-test: 8 ranks in 1.4 s; svd: gesvd 0.31 s, gesvdj 0.12 s; links: 21.3GB/s at
/// least", without a newline.
std::string self_test_text(const SelfTestResult& result);

}  // namespace dotresize
