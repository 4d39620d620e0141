// Measures this machine with the product's own kernels and prints a hardware file for
// `dotresize plan --hardware` (proto/dotresize/v1/hardware.proto) on stdout:
//
//   hardware_benchmark --folder DIR [--device cuda]
//   mpirun -np 2 hardware_benchmark --folder DIR        with "link"
//
// DIR is where models are read and written. Each rate is the best of three runs, at widths between
// those of a small and a large model. CPU rates are those of all threads (OMP_NUM_THREADS). The
// second rank takes part only in "link".
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <thread>

#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/process/environment.h"
#include "base/text/sha256.h"
#include "worker/comm/mpi_communicator.h"
#include "worker/cuda/cuda_module.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/sinkhorn.h"
#include "worker/kernels/svd.h"
#include "worker/maps/describe/spectrum.h"

namespace {

using namespace dotresize;

constexpr int64_t kWidth = 4096;
constexpr int64_t kNarrow = 3264;
constexpr int64_t kInner = 14336;
constexpr int64_t kTokens = 2048;
constexpr int64_t kHeads = 32;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kCopyNumbers = int64_t{1} << 27;
constexpr int64_t kFileBytes = int64_t{1} << 31;

struct Options {
  std::filesystem::path folder;
  std::string device = "cpu";
};

/// The device that runs the measured work.
struct Place {
  at::Device device = at::kCPU;
  CudaModule* cuda = nullptr;

  at::TensorOptions of(at::ScalarType dtype) const { return at::dtype(dtype).device(device); }
  at::Tensor randn(at::IntArrayRef shape, at::ScalarType dtype) const {
    return at::randn(shape, of(at::kFloat)).to(dtype);
  }
  void synchronize() const {
    if (cuda != nullptr) cuda->synchronize();
  }
};

double seconds_of(const Place& place, const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  place.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of the fastest of three runs, after a warm-up run.
double best_seconds(const Place& place, const std::function<void()>& work) {
  work();
  place.synchronize();
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3; ++run) best = std::min(best, seconds_of(place, work));
  return best;
}

void print(const char* key, double rate) {
  std::printf("%s: %.3g\n", key, rate);
  std::fflush(stdout);
}

double gemm(const Place& place, at::ScalarType dtype) {
  const at::Tensor x = place.randn({kTokens, kWidth}, dtype);
  const at::Tensor weight = place.randn({kInner, kWidth}, dtype);
  const double operations = 2.0 * kTokens * kWidth * kInner;
  return operations / best_seconds(place, [&] { at::linear(x, weight); });
}

double attention(const Place& place, at::ScalarType dtype) {
  const at::Tensor x = place.randn({1, kHeads, kTokens, kHeadDim}, dtype);
  const double operations = 2.0 * kTokens * kTokens * kHeads * kHeadDim;
  return operations / best_seconds(place, [&] {
           at::scaled_dot_product_attention(x, x, x, {}, 0.0, /*is_causal=*/true);
         });
}

/// Copies to a new tensor, as activations are copied.
double copy(const Place& place) {
  const at::Tensor x = at::ones({kCopyNumbers}, place.of(at::kFloat));
  return 2.0 * static_cast<double>(x.nbytes()) / best_seconds(place, [&] { x.clone(); });
}

double l1_cost(const Place& place) {
  const at::Tensor x = place.randn({kTokens, kWidth}, at::kFloat);
  at::Tensor cost = at::zeros({kWidth, kWidth}, place.of(at::kDouble));
  const double pairs = 0.5 * kTokens * kWidth * kWidth;
  return pairs / best_seconds(place, [&] { add_l1_cost(x, cost); });
}

double eigen(const Place& place) {
  const at::Tensor x = place.randn({2 * kWidth, kWidth}, at::kDouble);
  const at::Tensor gram = at::mm(x.t(), x);
  const double operations = 20.0 * kWidth * kWidth * kWidth;
  return operations / best_seconds(place, [&] { eigenbasis(gram); });
}

/// Measures the faster driver on [r, r], where r is the width left out by the narrow maps.
double svd(const Place& place) {
  constexpr int64_t kWidthLeftOut = kWidth - kNarrow;
  const at::Tensor x = place.randn({kWidthLeftOut, kWidthLeftOut}, at::kDouble);
  double best = std::numeric_limits<double>::infinity();
  for (const SvdDriver driver : {SvdDriver::kGesvd, SvdDriver::kGesvdj}) {
    best = std::min(best, best_seconds(place, [&] { dotresize::svd(x, false, driver); }));
    if (place.cuda == nullptr) break;  // the CPU has one driver
  }
  return 60.0 * kWidthLeftOut * kWidthLeftOut * kWidthLeftOut / best;
}

double qr(const Place& place) {
  const at::Tensor T = at::rand({kWidth, kNarrow}, place.of(at::kDouble));
  const double operations = 2.0 * kWidth * kNarrow * kNarrow;
  return operations / best_seconds(place, [&] { at::linalg_qr(T, "reduced"); });
}

double sinkhorn_bytes(const Place& place) {
  const at::Tensor cost = at::rand({kWidth, kNarrow}, place.of(at::kDouble));
  const auto run = [&](int64_t iterations) {
    return best_seconds(place, [&] {
      sinkhorn(cost, {.lambda = 0.1, .tolerance = 0.0, .max_iterations = iterations});
    });
  };
  constexpr int64_t kIterations = 40;
  const double seconds = run(1 + kIterations) - run(1);
  return kIterations * static_cast<double>(cost.nbytes()) / seconds;
}

double to_device(const Place& place) {
  const at::Tensor x = at::ones({kCopyNumbers}, at::dtype(at::kFloat)).pin_memory();
  return static_cast<double>(x.nbytes()) / best_seconds(place, [&] { x.to(place.device); });
}

/// Measures a transfer from rank 0 to rank 1. Other ranks do nothing.
void measure_link(Communicator& comm) {
  at::Tensor x = at::ones({kCopyNumbers}, at::dtype(at::kFloat));
  const auto move = [&] {
    if (comm.rank() == 0) comm.send(x, 1)->wait();
    if (comm.rank() == 1) comm.receive(x, 0)->wait();
    comm.barrier();
  };
  const double seconds = best_seconds(Place{}, move);
  if (comm.rank() == 0) print("link", static_cast<double>(x.nbytes()) / seconds);
}

/// A file that is removed in the destructor.
struct TemporaryFile {
  std::filesystem::path path;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

void write_file(const std::filesystem::path& path, const at::Tensor& bytes) {
  OutputFile file(path, OutputFile::Mode::kTruncate);
  file.write(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes(), 0);
  file.close();
}

/// Reads the file mapped, as checkpoints are, after dropping it from the kernel's cache.
double read_seconds(const std::filesystem::path& path) {
  const InputFile file(path.string());
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  void* const mapped = mmap(nullptr, kFileBytes, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  TORCH_CHECK(mapped != MAP_FAILED, "cannot map ", path.string());
  madvise(mapped, kFileBytes, MADV_WILLNEED);
  const at::Tensor numbers = at::from_blob(mapped, {kFileBytes / 4}, at::dtype(at::kInt));
  const double seconds = seconds_of(Place{}, [&] { numbers.max(); });
  munmap(mapped, kFileBytes);
  return seconds;
}

void measure_files(const std::filesystem::path& folder) {
  const TemporaryFile file{folder / fmt::format("hardware_benchmark.{}", getpid())};
  const at::Tensor bytes = at::randint(256, {kFileBytes}, at::dtype(at::kByte));
  constexpr auto kBytes = static_cast<double>(kFileBytes);
  std::printf("disk:\n");
  print("  write", kBytes / best_seconds(Place{}, [&] { write_file(file.path, bytes); }));
  double reading = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3; ++run) reading = std::min(reading, read_seconds(file.path));
  print("  read", kBytes / reading);
  print("  cache", 0.5 * static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(sysconf(_SC_PAGESIZE)));
  print("hash", kBytes / best_seconds(Place{}, [&] { sha256_of_file(file.path); }));
}

/// Prints the usable host memory and the device memory that is free now.
void measure_capacity(const Place& place) {
  std::printf("capacity:\n");
  print("  host", static_cast<double>(usable_memory_bytes()));
  if (place.cuda != nullptr) {
    print("  device", static_cast<double>(place.cuda->memory().free));
  }
}

void measure_device(const Place& place) {
  const bool cuda = place.cuda != nullptr;
  const bool has_bfloat16 = cuda && place.cuda->info(0).capability >= 80;
  const at::ScalarType half = has_bfloat16 ? at::kBFloat16 : at::kHalf;
  std::printf("device: %s\n", cuda ? "cuda" : "cpu");
  if (cuda) std::printf("capability: %d\n", place.cuda->info(0).capability);
  std::printf("cores: %u\ngemm:\n", std::thread::hardware_concurrency());
  print("  float64", gemm(place, at::kDouble));
  print("  float32", gemm(place, at::kFloat));
  if (cuda) print("  float16", gemm(place, at::kHalf));
  if (has_bfloat16) print("  bfloat16", gemm(place, at::kBFloat16));
  print("attention", attention(place, cuda ? half : at::kFloat));
  print("memory", copy(place));
  print("l1_cost", l1_cost(place));
  print("eigen", eigen(place));
  print("svd", svd(place));
  print("qr", qr(place));
  print("sinkhorn", sinkhorn_bytes(place));
  if (!cuda) return;
  std::printf("host:\n");
  print("  memory", copy(Place{}));
  print("  to_device", to_device(place));
}

int run(const Options& options, Communicator& comm) {
  const c10::InferenceMode no_autograd;
  at::manual_seed(1);
  Place place;
  if (options.device == "cuda") {
    if (const std::string reason = ask_driver().fault; !reason.empty()) {
      std::fprintf(stderr, "hardware_benchmark: nothing to measure: %s\n", reason.c_str());
      return 1;
    }
    place.cuda = &open_cuda_module();
    place.cuda->use(0);
    place.device = at::Device(at::kCUDA, 0);
  }
  if (comm.rank() == 0) {
    std::printf("# Measured by bench/hardware_benchmark.cpp, %d threads.\n", at::get_num_threads());
    measure_device(place);
  }
  comm.barrier();  // the other rank sleeps until here
  if (comm.size() > 1) measure_link(comm);
  if (comm.rank() == 0) {
    measure_files(options.folder);
    measure_capacity(place);
  }
  comm.barrier();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures this machine: a hardware file on stdout");
  app.add_option("--folder", options.folder, "where models are read and written")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  int status = 0;
  {
    MpiCommunicator comm(MPI_COMM_WORLD, wait_at_most(std::chrono::hours(1)));
    status = run(options, comm);
  }
  MPI_Finalize();
  return status;
}
