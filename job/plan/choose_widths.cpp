#include "job/plan/choose_widths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

/// The widths that a junction can have and the fraction of its energy that each holds, both
/// ascending.
struct Choices {
  std::vector<int64_t> widths;
  std::vector<double> held;

  std::size_t first_that_holds(double threshold) const {
    const auto found = std::lower_bound(held.begin(), held.end(), threshold);
    return static_cast<std::size_t>(std::min(found, held.end() - 1) - held.begin());
  }
};

Choices make_choices(const std::vector<int64_t>& widths, const std::vector<double>& spectrum,
                     int64_t junction) {
  std::vector<double> sums(spectrum.size() + 1, 0.0);
  for (std::size_t i = 0; i < spectrum.size(); ++i) {
    sums[i + 1] = sums[i] + std::max(spectrum[i], 0.0);  // rounding makes zeros negative
  }
  if (!(sums.back() > 0.0)) {
    throw std::runtime_error("junction " + junction_name(junction) +
                             ": all activations of the junction are zero");
  }
  Choices choices{widths, {}};
  for (const int64_t width : widths) {
    choices.held.push_back(sums[static_cast<std::size_t>(width)] / sums.back());
  }
  return choices;
}

class EnergySearch {
 public:
  EnergySearch(const ResolvedJob& job, const ModelConfig& config,
               const std::vector<std::vector<double>>& spectra)
      : job_(job), config_(config), energy_(*job.energy) {
    const std::vector<int64_t> widths = possible_widths(job.hidden_size, job.energy->round_to);
    for (std::size_t j = 0; j < spectra.size(); ++j) {
      junctions_.push_back(make_choices(widths, spectra[j], static_cast<int64_t>(j)));
    }
  }

  JunctionWidths run() const {
    const double keep = energy_.keep.value_or(0.0);
    if (!energy_.size) return smaller(at(keep), "method.widths.keep");
    const double threshold = largest_threshold();
    if (threshold < keep) refuse_size(at(threshold));
    return smaller(at(threshold), "method.widths.size");
  }

 private:
  /// The widths of a threshold.
  JunctionWidths at(double threshold) const {
    JunctionWidths widths = job_.widths;
    double held = 1.0;
    for (std::size_t j = 0; j < junctions_.size(); ++j) {
      const std::size_t choice = junctions_[j].first_that_holds(threshold);
      widths.all.at(j) = junctions_[j].widths[choice];
      held = std::min(held, junctions_[j].held[choice]);
    }
    widths.held = held;
    return decided(std::move(widths), job_.hidden_size);
  }

  bool fits(double threshold) const {
    const NetSize size = net_size(config_, job_, at(threshold));
    return size.compressed_bytes <= largest_bytes(*energy_.size, size.dense_bytes);
  }

  /// Widths change only at thresholds that one of them holds, and they and the bytes grow with the
  /// threshold: the largest of those that fits is the largest of all. 0: all of them exceed the
  /// size.
  double largest_threshold() const {
    std::vector<double> thresholds;
    for (const Choices& choices : junctions_) {
      thresholds.insert(thresholds.end(), choices.held.begin(), choices.held.end());
    }
    std::sort(thresholds.begin(), thresholds.end());
    if (fits(thresholds.back())) return thresholds.back();  // without maps it may be smaller again
    const auto end = std::partition_point(thresholds.begin(), thresholds.end(),
                                          [&](double threshold) { return fits(threshold); });
    return end == thresholds.begin() ? 0.0 : *(end - 1);
  }

  [[noreturn]] void refuse_size(const JunctionWidths& widest) const {
    throw InputError("method.widths.size",
                     fmt::format("{} leaves the junctions {:.6f} of their energy, less than "
                                 "method.widths.keep, {}; a smaller keep or a larger size would do",
                                 *energy_.size, *widest.held, *energy_.keep));
  }

  JunctionWidths smaller(JunctionWidths widths, const std::string& key) const {
    const std::string warning = size_warning(net_size(config_, job_, widths), job_);
    if (warning.empty() || job_.allow_larger) return widths;
    throw InputError(key, warning + "; method.allow_larger: true makes it all the same");
  }

  const ResolvedJob& job_;
  const ModelConfig& config_;
  const EnergyTarget& energy_;
  std::vector<Choices> junctions_;
};

}  // namespace

int64_t default_round_to(int64_t hidden_size) { return hidden_size >= 2048 ? 64 : 8; }

std::vector<int64_t> possible_widths(int64_t hidden_size, int64_t round_to) {
  std::vector<int64_t> widths;
  for (int64_t k = round_to; k < hidden_size; k += round_to) widths.push_back(k);
  widths.push_back(hidden_size);
  return widths;
}

int64_t width_from_sparsity(double sparsity, int64_t hidden_size, int64_t round_to) {
  if (round_to == 0) round_to = default_round_to(hidden_size);
  const double multiples =
      (1.0 - sparsity) * static_cast<double>(hidden_size) / static_cast<double>(round_to);
  const int64_t width = static_cast<int64_t>(std::floor(multiples + 1e-9)) * round_to;
  if (width <= 0) {
    throw InputError("method.sparsity",
                     std::to_string(sparsity) + " of hidden size " + std::to_string(hidden_size) +
                         " leaves no width that is a multiple of " + std::to_string(round_to) +
                         "; a smaller sparsity, a smaller round_to or an explicit width would do");
  }
  return width;
}

int64_t width_from_size(double size, int64_t round_to, const ModelConfig& config,
                        const ResolvedJob& job) {
  NetSize net;
  for (int64_t k = config.hidden_size / round_to * round_to; k > 0; k -= round_to) {
    net = net_size(config, job,
                   decided(uniform_widths(config, job.head_sliced, k), config.hidden_size));
    if (net.compressed_bytes <= largest_bytes(size, net.dense_bytes)) return k;
  }
  if (round_to > config.hidden_size) {
    throw InputError(
        "method.size",
        fmt::format("no width up to the hidden size, {}, is a multiple of {}; a smaller round_to "
                    "would do",
                    config.hidden_size, round_to));
  }
  throw InputError("method.size",
                   fmt::format("{} is not available: the smallest width, {}, gives {:.6f} of the "
                               "dense model's bytes",
                               size, round_to, net.bytes_fraction()));
}

void check_energy_target(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.energy->size) return;
  const int64_t smallest = possible_widths(job.hidden_size, job.energy->round_to).front();
  const NetSize size = net_size(config, job, uniform_widths(config, job.head_sliced, smallest));
  if (size.compressed_bytes <= largest_bytes(*job.energy->size, size.dense_bytes)) return;
  throw InputError(
      "method.widths.size",
      fmt::format("{} is not available: the smallest widths, {}, give {:.6f} of the dense "
                  "model's bytes",
                  *job.energy->size, smallest, size.bytes_fraction()));
}

JunctionWidths energy_widths(const ResolvedJob& job, const ModelConfig& config,
                             const std::vector<std::vector<double>>& spectra) {
  return EnergySearch(job, config, spectra).run();
}

}  // namespace dotresize
