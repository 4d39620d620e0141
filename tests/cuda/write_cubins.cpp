// write_cubins DIR CAPABILITY: compiles the kernels to DIR/l1_cost.cubin, DIR/removal.cubin and
// DIR/sinkhorn.cubin.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "worker/cuda/nvrtc.h"

int main(int argc, char** argv) {
  using namespace dotresize;
  if (argc != 3) return 64;
  try {
    const std::filesystem::path dir = argv[1];
    const int capability = std::stoi(argv[2]);
    std::ofstream(dir / "l1_cost.cubin") << compile_cuda(l1_cost_program(), capability).cubin;
    std::ofstream(dir / "removal.cubin") << compile_cuda(removal_program(), capability).cubin;
    std::ofstream(dir / "sinkhorn.cubin")
        << compile_cuda(sinkhorn_program(kMaxSinkhornColumns), capability).cubin;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
