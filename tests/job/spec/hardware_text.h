#pragma once

namespace dotresize {

/// A hardware file with every key that `device: cpu` needs: 1e9 for all rates, one core, no cache.
inline constexpr const char* kPlainCpu = R"(device: cpu
cores: 1
gemm:
  float64: 1e9
  float32: 1e9
attention: 1e9
memory: 1e9
l1_cost: 1e9
eigen: 1e9
qr: 1e9
svd: 1e9
sinkhorn: 1e9
link: 1e9
disk:
  read: 1e9
  write: 1e9
hash: 1e9
)";

/// A hardware file with every key that `device: cuda` needs: a GPU that computes in float16.
inline constexpr const char* kPlainGpu = R"(device: cuda
capability: 70
cores: 8
gemm:
  float64: 1e9
  float32: 1e9
  float16: 1e9
attention: 1e9
memory: 1e9
l1_cost: 1e9
eigen: 1e9
qr: 1e9
svd: 1e9
sinkhorn: 1e9
host:
  memory: 1e9
  to_device: 1e9
link: 1e9
disk:
  read: 1e9
  write: 1e9
hash: 1e9
)";

}  // namespace dotresize
