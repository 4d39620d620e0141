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

/// What this rank computes with, to be tried.
struct SelfTestSubject {
  at::Device device = at::kCPU;
  std::string name;  ///< of the device, for people
  at::ScalarType compute_dtype = at::kFloat;
  CudaKernels kernels;  ///< for tensors on the device; one that is null is left out
};

/// The device of this rank with its kernels; of the CPU all but that of float16, which it has not.
SelfTestSubject self_test_subject(const ChosenDevice& device, at::ScalarType compute_dtype);

/// Times of one decomposition by each driver.
struct SvdSeconds {
  double gesvd = 0.0;
  double gesvdj = 0.0;
};

/// QR iteration, unless Jacobi's method takes less than four fifths of its time: what lies nearer
/// may be the other way round in the next run.
SvdDriver faster_svd(const SvdSeconds& seconds);

struct SelfTestResult {
  double seconds = 0.0;
  std::optional<SvdSeconds> svd;  ///< on the GPU of rank 0; the CPU has no such choice
  /// Bytes a second between the ranks r and r + 1, there and back one after the other.
  std::vector<int64_t> link_speeds;
};

/// Computes small problems on the device of every rank (our kernels, a product in the compute
/// dtype, eigh and svd in float64) and compares with the CPU; times svd by both drivers; then has
/// neighbouring ranks send each other known bytes over `comm`, both ways, from device to device. A
/// second or two on a GPU, most of it the start of its libraries; less on the CPU. Collective.
/// Throws InputError for resources.device on all ranks if a result is wrong, naming rank, device
/// and what failed, and CommunicationError on the rank whose transfer fails.
SelfTestResult self_test(const SelfTestSubject& subject, Communicator& comm);

/// "self-test: 8 ranks in 1.4 s; svd: gesvd 0.31 s, gesvdj 0.12 s; links: 21.3GB/s at least",
/// without a newline.
std::string self_test_text(const SelfTestResult& result);

}  // namespace dotresize
