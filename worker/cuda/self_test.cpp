#include "worker/cuda/self_test.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "base/errors.h"
#include "base/phase_clock.h"
#include "base/process/environment.h"
#include "base/text/human_text.h"
#include "worker/kernels/l1_cost.h"
#include "worker/kernels/removal_steps.h"
#include "worker/kernels/sinkhorn.h"

namespace dotresize {
namespace {

// Neither size is a multiple of a kernel's tile or block.
constexpr int64_t kTokens = 300;
constexpr int64_t kWidth = 150;
constexpr int64_t kSupport = 120;
/// Narrowest matrix that jobs decompose on a GPU (worker/maps/describe/spectrum.cpp). Smaller ones
/// may use another solver.
constexpr int64_t kEigenWidthOnGpu = 512;
/// Wide enough for the drivers' times to compare as in a job, whose widths are from 800 (8B) to
/// 1700 (70B).
constexpr int64_t kSvdWidthOnGpu = 768;
constexpr int64_t kNoteBytes = 4096;
constexpr int64_t kBulkBytes = int64_t{4} << 20;

/// Returns [rows, columns] float64 in [-1, 1] without a pattern, the same in every run.
at::Tensor numbers(int64_t rows, int64_t columns) {
  return at::arange(1, rows * columns + 1, at::kDouble).square_().sin_().view({rows, columns});
}

/// Throws std::runtime_error if a result differs from `expected` [CPU, float64] by more than
/// `limit` times the largest expected magnitude, or is not finite.
void compare(const at::Tensor& result, const at::Tensor& expected, double limit) {
  const at::Tensor difference = result.to(at::kCPU, at::kDouble).sub(expected).abs_();
  const double error = difference.max().item<double>() / expected.abs().max().item<double>();
  if (error <= limit) return;
  throw std::runtime_error(fmt::format(
      "differs from the CPU's by {:.2g} of its largest value, {:.2g} is the limit", error, limit));
}

/// Returns the plan after this many iterations in the log domain.
at::Tensor expected_plan(const at::Tensor& cost, const SinkhornOptions& options,
                         int64_t iterations) {
  const at::Tensor scaled = cost / options.lambda;
  at::Tensor alpha;
  at::Tensor beta = at::zeros({cost.size(1)}, at::kDouble);
  for (int64_t i = 0; i < iterations; ++i) {
    alpha = -at::logsumexp(beta - scaled, 1) - std::log(static_cast<double>(cost.size(0)));
    beta = -at::logsumexp(alpha.unsqueeze(1) - scaled, 0) -
           std::log(static_cast<double>(cost.size(1)));
  }
  return (alpha.unsqueeze(1) - scaled + beta).exp();
}

/// Returns the costs of the first steps of a removal, from H⁻¹ and V, each step on whole matrices.
at::Tensor expected_costs(at::Tensor inverse, at::Tensor V, int64_t count) {
  at::Tensor expected = at::empty({count}, at::kDouble);
  at::Tensor removed = at::zeros({V.size(1)}, at::kBool);
  for (int64_t step = 0; step < count; ++step) {
    const at::Tensor costs = (V.square().sum(0) / inverse.diagonal())
                                 .masked_fill(removed, std::numeric_limits<double>::infinity());
    const auto feature = costs.argmin().item<int64_t>();
    expected[step] = costs[feature];
    removed[feature] = true;
    const at::Tensor row = inverse[feature] / inverse[feature][feature];
    V = V - at::outer(V.select(1, feature), row);
    inverse = inverse - at::outer(inverse.select(1, feature), row);
  }
  return expected;
}

/// Compares the kernels with the CPU. `trial` receives the name of each trial before it runs.
void try_kernels(const SelfTestSubject& subject, std::string& trial) {
  const CudaKernels& kernels = subject.kernels;
  if (kernels.add_l1_cost) {
    trial = "l1 cost";
    const at::Tensor x = numbers(kTokens, kWidth).to(at::kFloat);
    at::Tensor cost = at::zeros({kWidth, kWidth}, at::dtype(at::kDouble).device(subject.device));
    kernels.add_l1_cost(x.to(subject.device), cost);
    const at::Tensor channels = x.to(at::kDouble).t().contiguous();
    compare(cost.triu(1), at::cdist(channels, channels, /*p=*/1.0).triu_(1), 1e-5);
  }
  if (kernels.mirror_upper_triangle) {
    trial = "mirrored triangle";
    const at::Tensor matrix = numbers(kWidth, kWidth);
    at::Tensor mirrored = matrix.to(subject.device, at::kDouble, /*non_blocking=*/false,
                                    /*copy=*/true);
    kernels.mirror_upper_triangle(mirrored);
    compare(mirrored, matrix.triu().add_(matrix.triu(1).t()), 0.0);
  }
  if (kernels.sinkhorn) {
    trial = "Sinkhorn plan";
    const at::Tensor cost = numbers(kWidth, kSupport).abs_();
    const SinkhornOptions options;
    const SinkhornResult result = kernels.sinkhorn(cost.to(subject.device), options);
    if (!result.converged) {
      throw std::runtime_error(
          fmt::format("does not converge within {} iterations, marginals are off by {:.2g}",
                      result.iterations, result.violation));
    }
    compare(result.plan, expected_plan(cost, options, result.iterations), 1e-9);
  }
  if (kernels.removal_steps) {
    trial = "removal of features";
    const at::Tensor x = numbers(kTokens, kWidth);
    const at::Tensor inverse = at::linalg_inv(at::mm(x.t(), x));
    const at::Tensor V = numbers(kSupport, kWidth);
    const at::Tensor products = at::mm(V.t(), V);
    RemovalState state{inverse.to(subject.device), products.to(subject.device),
                       products.diagonal().clone().to(subject.device),
                       inverse.diagonal().clone().to(subject.device)};
    compare(kernels.removal_steps(state, kMaxRemovalSteps).costs,
            expected_costs(inverse, V, kMaxRemovalSteps), 1e-9);
  }
}

void try_eigh(const SelfTestSubject& subject) {
  constexpr double kLimit = 1e-10;
  const int64_t width = subject.device.is_cpu() ? kWidth : kEigenWidthOnGpu;
  const at::Tensor x = numbers(width, kTokens);
  const at::Tensor gram = at::mm(x, x.t());
  const auto [values, vectors] = at::linalg_eigh(gram.to(subject.device));
  compare(values, at::linalg_eigvalsh(gram), kLimit);
  const at::Tensor v = vectors.cpu();
  compare(at::mm(v.t(), v), at::eye(width, at::kDouble), kLimit);
  compare(at::mm(v * values.cpu(), v.t()), gram, kLimit);
}

/// Decomposes with one driver and compares. Returns the seconds of the decomposition, without the
/// driver's first use.
double try_svd(const SelfTestSubject& subject, SvdDriver driver) {
  constexpr double kLimit = 1e-10;
  const int64_t width = subject.device.is_cpu() ? kWidth : kSvdWidthOnGpu;
  const at::Tensor matrix = numbers(width, width);
  const at::Tensor given = matrix.to(subject.device);
  svd(given.narrow(0, 0, kWidth).narrow(1, 0, kWidth).contiguous(), false, driver);
  const auto start = std::chrono::steady_clock::now();
  const auto [P, values, Wt] = svd(given, /*full_matrices=*/false, driver);
  const at::Tensor left = P.cpu();  // copying waits for the result
  const double seconds = seconds_since(start);
  const at::Tensor right = Wt.cpu();
  const at::Tensor one = at::eye(width, at::kDouble);
  compare(at::mm(left.t(), left), one, kLimit);
  compare(at::mm(right, right.t()), one, kLimit);
  compare(at::mm(left * values.cpu(), right), matrix, kLimit);
  return seconds;
}

/// Tries both drivers on a GPU. Jacobi's method may not converge. It is then not a choice, but this
/// is not a fault.
std::optional<SvdSeconds> try_svd_drivers(const SelfTestSubject& subject) {
  SvdSeconds seconds{.gesvd = try_svd(subject, SvdDriver::kGesvd)};
  if (subject.device.is_cpu()) return std::nullopt;
  try {
    seconds.gesvdj = try_svd(subject, SvdDriver::kGesvdj);
  } catch (const std::exception& error) {
    fmt::print(stderr, "self-test: svd by gesvdj is not used: {}\n", error.what());
    seconds.gesvdj = std::numeric_limits<double>::infinity();
  }
  return seconds;
}

/// Returns the device's first fault, with the name of the failed trial; empty if there is none.
/// `svd` receives the times of the drivers.
std::string device_fault(const SelfTestSubject& subject, std::optional<SvdSeconds>& svd) {
  std::string trial;
  try {
    try_kernels(subject, trial);
    const at::ScalarType dtype = subject.compute_dtype;
    trial = fmt::format("product in {}", at::toString(dtype));
    const at::Tensor a = numbers(kWidth, kTokens).to(dtype);
    const at::Tensor b = numbers(kTokens, kSupport).to(dtype);
    // The limit allows the rounding of 16-bit results, but not TF32.
    const double limit = dtype == at::kHalf ? 0x1p-10 : dtype == at::kBFloat16 ? 0x1p-7 : 1e-5;
    compare(at::mm(a.to(subject.device), b.to(subject.device)),
            at::mm(a.to(at::kDouble), b.to(at::kDouble)), limit);
    trial = "eigh in Double";
    try_eigh(subject);
    trial = "svd in Double";
    svd = try_svd_drivers(subject);
  } catch (const c10::Error& error) {
    return trial + ": " + error.what_without_backtrace();
  } catch (const std::exception& error) {
    return trial + ": " + error.what();
  }
  return "";
}

struct LinkResult {
  std::string fault;
  int64_t speed = 0;  ///< bytes a second to the next rank; 0 on the last rank
};

/// Exchanges messages with one neighbour: a short one, after which both are ready, then a long one,
/// which is timed. Throws CommunicationError.
void ping(const SelfTestSubject& subject, Communicator& comm, int peer, LinkResult& link) {
  struct Exchange {
    at::Tensor mine;
    at::Tensor expected;  ///< on the CPU
    at::Tensor theirs;
  };
  const auto exchange_of = [&](int64_t bytes) {
    const auto message = [bytes](int from, int to) {
      return at::arange(bytes, at::kInt)
          .mul_(31 + 2 * from)
          .add_(17 * to)
          .remainder_(251)
          .to(at::kByte);
    };
    return Exchange{message(comm.rank(), peer).to(subject.device), message(peer, comm.rank()),
                    at::zeros({bytes}, at::dtype(at::kByte).device(subject.device))};
  };
  const auto run = [&](Exchange& exchange) {  // the lower rank sends first
    const bool first = comm.rank() < peer;
    if (first) comm.send(exchange.mine, peer)->wait();
    comm.receive(exchange.theirs, peer)->wait();
    if (!first) comm.send(exchange.mine, peer)->wait();
  };
  Exchange note = exchange_of(kNoteBytes);
  Exchange bulk = exchange_of(kBulkBytes);
  try {
    run(note);
    const auto start = std::chrono::steady_clock::now();
    run(bulk);
    if (peer > comm.rank()) link.speed = std::llround(2 * kBulkBytes / seconds_since(start));
  } catch (const CommunicationError& error) {
    throw CommunicationError(
        fmt::format("self-test: ping of ranks {} and {}: {}", comm.rank(), peer, error.what()));
  }
  for (const Exchange* exchange : {&note, &bulk}) {
    const auto wrong = exchange->theirs.cpu().ne(exchange->expected).sum().item<int64_t>();
    if (wrong == 0 || !link.fault.empty()) continue;
    link.fault = fmt::format("ping: of {} bytes from rank {} {} arrive changed",
                             exchange->expected.numel(), peer, wrong);
  }
}

/// Throws the fault of the lowest faulty rank on all ranks, if there is one.
void require_no_fault(const SelfTestSubject& subject, Communicator& comm,
                      const std::string& fault) {
  const std::string mine = fault.empty()
                               ? ""
                               : fmt::format("rank {} on {}, {}, has failed the self-test: {}",
                                             comm.rank(), host_name(), subject.name, fault);
  const std::vector<std::string> faults = gather_strings(comm, mine, 0);
  const auto first = std::ranges::find_if(faults, [](const auto& one) { return !one.empty(); });
  const std::string verdict =
      broadcast_string(comm, first == faults.end() ? std::string() : *first, 0);
  if (!verdict.empty()) throw InputError("resources.device", verdict);
}

}  // namespace

SelfTestSubject self_test_subject(const ChosenDevice& device, at::ScalarType compute_dtype) {
  if (device.cuda != nullptr) {
    return {device.device, device.name, compute_dtype, device.cuda->kernels()};
  }
  CudaKernels kernels;
  kernels.add_l1_cost = [](const at::Tensor& x, at::Tensor& cost) { add_l1_cost(x, cost); };
  kernels.mirror_upper_triangle = &mirror_upper_triangle;
  kernels.sinkhorn = &sinkhorn;
  kernels.removal_steps = &removal_steps;
  return {device.device, "CPU", compute_dtype, kernels};
}

SvdDriver faster_svd(const SvdSeconds& seconds) {
  return seconds.gesvdj < 0.8 * seconds.gesvd ? SvdDriver::kGesvdj : SvdDriver::kGesvd;
}

SelfTestResult self_test(const SelfTestSubject& subject, Communicator& comm) {
  const auto start = std::chrono::steady_clock::now();
  SelfTestResult result;
  require_no_fault(subject, comm, device_fault(subject, result.svd));
  // The pairs that begin with an even rank ping first, then those that begin with an odd one. So a
  // rank has at most one peer in each round.
  LinkResult link;
  for (int round = 0; round < 2; ++round) {
    const int peer = comm.rank() % 2 == round ? comm.rank() + 1 : comm.rank() - 1;
    if (peer >= 0 && peer < comm.size()) ping(subject, comm, peer, link);
  }
  require_no_fault(subject, comm, link.fault);
  result.link_speeds = gather_numbers(comm, link.speed);
  result.link_speeds.pop_back();
  result.seconds = seconds_since(start);
  return result;
}

std::string self_test_text(const SelfTestResult& result) {
  const std::vector<int64_t>& links = result.link_speeds;
  std::string text = fmt::format("self-test: {} in {:.1f} s",
                                 counted(std::ssize(links) + 1, "rank"), result.seconds);
  if (result.svd) {
    text += fmt::format("; svd: gesvd {:.2g} s, gesvdj {:.2g} s", result.svd->gesvd,
                        result.svd->gesvdj);
  }
  if (links.empty()) return text;
  return fmt::format("{}; links: {}B/s at least", text,
                     format_rate(static_cast<double>(*std::ranges::min_element(links))));
}

}  // namespace dotresize
