#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "job/model/model_size.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/allocate/joint_allocation.h"
#include "job/plan/allocate/junction_widths.h"
#include "job/plan/allocate/loss_allocation.h"
#include "job/plan/allocate/shortcut_forms.h"
#include "job/plan/net_size.h"

namespace dotresize {
namespace {

/// Bytes that depend on the widths at both ends of a sublayer: fixed + in·k_in + out·k_out.
struct LinearSize {
  int64_t fixed = 0;
  int64_t in = 0;
  int64_t out = 0;

  int64_t at(int64_t k_in, int64_t k_out) const { return fixed + in * k_in + out * k_out; }
};

template <class Bytes>
LinearSize linear(const Bytes& bytes) {
  LinearSize found;
  found.in = bytes(2, 1) - bytes(1, 1);
  found.out = bytes(1, 2) - bytes(1, 1);
  found.fixed = bytes(1, 1) - found.in - found.out;
  return found;
}

/// Bytes of a sublayer without its shortcut: `rest`, and `each` for each feature of its MLP or
/// channel of its value heads.
struct SublayerBytes {
  LinearSize rest;
  LinearSize each;
};

/// `output`: config with the dtypes of the output.
SublayerBytes bytes_of_sublayer(const ModelConfig& output, int64_t sublayer) {
  ModelConfig other = output;
  const auto layers = static_cast<std::size_t>(output.num_layers);
  const auto with = [&](int64_t size) {
    return linear([&](int64_t k_in, int64_t k_out) {
      other.form.intermediate_sizes.assign(layers, size);
      other.form.value_head_dims.assign(layers, size);
      return sublayer_size(other, sublayer, k_in, k_out, /*folded=*/true).bytes -
             k_in * k_out * size_in_bytes(output.dtypes.main);
    });
  };
  const LinearSize one = with(1);
  const LinearSize two = with(2);
  const LinearSize each{two.fixed - one.fixed, two.in - one.in, two.out - one.out};
  return {{one.fixed - each.fixed, one.in - each.in, one.out - each.out}, each};
}

/// Bytes of the ends if the widths are k_in at the first junction and k_out at the last one.
LinearSize bytes_of_ends(const ModelConfig& output, bool tied) {
  ModelConfig ends = output;
  ends.compressed = true;
  ends.tie_word_embeddings = tied;
  // Tied ends have a projection for the head too, because a dense head is rotated with the last
  // map. If the last shortcut is one matrix the model is smaller than this.
  ends.form.embedding_projection = ends.form.head_projection = tied;
  return linear([&](int64_t k_in, int64_t k_out) {
    ends.form.junction_widths.front() = k_in;
    ends.form.junction_widths.back() = k_out;
    return end_size(ends).bytes;
  });
}

/// Choice of all sizes, as indices: widths in the possible widths, by junction; sizes in
/// possible_inner_widths() and ranks in the possible shortcut ranks, by sublayer.
struct Choice {
  bool tied = false;  ///< one table for embedding and head
  std::vector<std::size_t> widths;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> ranks;
};

/// Sizes that a part may have, descending, with the predicted loss increase of each.
struct Part {
  /// Index of the best size if each unit of it costs `price`.
  std::size_t best(double price) const {
    const auto end =
        std::ranges::partition_point(hull, [&](const HullCorner& c) { return c.price < price; });
    return end == hull.begin() ? 0 : (end - 1)->size;
  }

  std::vector<int64_t> sizes;
  std::vector<double> loss_increases;
  std::vector<HullCorner> hull;  ///< without size 0
};

class Search {
 public:
  Search(const ModelConfig& config, const ResolvedJob& job,
         const PredictedLossIncreases& loss_increases);

  Allocation run() const;

 private:
  bool is_mapped(std::size_t junction) const { return junction < loss_increases_.junctions.size(); }
  /// A junction without a map keeps the hidden size.
  std::size_t first_width(std::size_t junction) const {
    return is_mapped(junction) ? least_ : grid_ - 1;
  }
  double loss_increase(std::size_t junction, std::size_t in, std::size_t out) const {
    return is_mapped(junction) ? loss_increases_.junctions[junction].at(in * grid_ + out) : 0.0;
  }
  /// Bytes of a sublayer without its shortcut.
  int64_t inside(std::size_t s, std::size_t in, std::size_t out, std::size_t size) const {
    const int64_t width = inner_[s].sizes[size];
    if (width == 0) return 0;
    return sublayers_[s].rest.at(widths_[in], widths_[out]) +
           sublayers_[s].each.at(widths_[in], widths_[out]) * width;
  }
  /// Best inner size between two widths, for a price of a byte.
  std::size_t size_at(double price, std::size_t s, std::size_t in, std::size_t out) const;
  std::size_t rank_at(double price, std::size_t s, std::size_t in, std::size_t out) const {
    return shortcuts_[s].best(price *
                              static_cast<double>((widths_[in] + widths_[out]) * shortcut_bytes_));
  }
  ShortcutForm shortcut(std::size_t sublayer, std::size_t in, std::size_t out,
                        std::size_t rank) const {
    return shortcut_form({.rank = shortcuts_[sublayer].sizes[rank]}, widths_[in], widths_[out],
                         job_.model.hidden_size, job_.oblique_maps());
  }
  double shortcut_loss_increase(std::size_t sublayer, std::size_t in, std::size_t out,
                                std::size_t rank) const;
  int64_t bytes(std::size_t sublayer, std::size_t in, std::size_t out, std::size_t size,
                std::size_t rank) const {
    return inside(sublayer, in, out, size) +
           shortcut_bytes_ *
               shortcut_parameters(shortcut(sublayer, in, out, rank), widths_[in], widths_[out]);
  }
  int64_t bytes(const Choice& choice) const;
  /// Choice with the smallest sum of the loss increase and of `price` for each byte.
  Choice best(double price) const;
  struct Priced {
    double cost;
    Choice choice;
  };
  Priced best(double price, bool tied) const;
  Choice within_limit() const;
  Allocation described(const Choice& choice) const;

  const ModelConfig& config_;
  const ResolvedJob& job_;
  const PredictedLossIncreases& loss_increases_;
  std::vector<int64_t> widths_;
  std::size_t grid_;   ///< number of widths
  std::size_t least_;  ///< index of the smallest width that is considered
  // One entry for each sublayer.
  std::vector<SublayerBytes> sublayers_;
  std::vector<Part> inner_;         ///< possible_inner_widths()
  std::vector<Part> shortcuts_;     ///< ranks of the shortcut
  std::array<LinearSize, 2> ends_;  ///< untied, tied
  int64_t shortcut_bytes_;          ///< bytes of a parameter of a shortcut
  int64_t limit_ = 0;               ///< largest number of bytes of the output
};

Search::Search(const ModelConfig& config, const ResolvedJob& job,
               const PredictedLossIncreases& loss_increases)
    : config_(config),
      job_(job),
      loss_increases_(loss_increases),
      widths_(possible_widths(job.model.hidden_size, job.target.allocation->round_to)),
      grid_(widths_.size()),
      least_(least_allocated_width(config, job)),
      shortcut_bytes_(size_in_bytes(job.output.dtypes.main)) {
  ModelConfig output = config;
  output.dtypes = job.output.dtypes;
  for (int64_t s = 0; s < config.num_sublayers(); ++s) {
    sublayers_.push_back(bytes_of_sublayer(output, s));
    const auto layer = static_cast<std::size_t>(layer_of(s));
    const auto& curves = is_attention(s) ? loss_increases.values : loss_increases.mlps;
    Part& inner = inner_.emplace_back(possible_inner_widths(config, job, s), curves.at(layer));
    // The hull leaves out size 0, which removes the sublayer: its bytes are not in proportion.
    LossCurve curve{inner.sizes, inner.loss_increases};
    if (curve.sizes.back() == 0) {
      curve.sizes.pop_back();
      curve.loss_increases.resize(curve.sizes.size());
    }
    inner.hull = lower_hull(curve);
    const auto index = static_cast<std::size_t>(s);
    Part& shortcut = shortcuts_.emplace_back();
    if (loss_increases.shortcuts.empty() || loss_increases.shortcuts.at(index).empty()) {
      shortcut = {{job.maps.shortcuts.rank.value()}, {0.0}, {}};
    } else {
      shortcut = {
          possible_shortcut_ranks(job.model.hidden_size), loss_increases.shortcuts[index], {}};
      shortcut.hull = lower_hull({shortcut.sizes, shortcut.loss_increases});
    }
  }
  ends_ = {bytes_of_ends(output, /*tied=*/false), bytes_of_ends(output, /*tied=*/true)};
  limit_ = largest_bytes(job.target.allocation->size, stored_bytes(config));
}

std::size_t Search::size_at(double price, std::size_t s, std::size_t in, std::size_t out) const {
  const Part& inner = inner_[s];
  const std::size_t kept =
      inner.best(price * static_cast<double>(sublayers_[s].each.at(widths_[in], widths_[out])));
  if (inner.sizes.back() > 0) return kept;
  const double saved = price * static_cast<double>(inside(s, in, out, kept));
  return inner.loss_increases.back() < inner.loss_increases[kept] + saved ? inner.sizes.size() - 1
                                                                          : kept;
}

/// Loss increase of a shortcut of this rank; 0 if the shortcut is exact between these widths.
double Search::shortcut_loss_increase(std::size_t sublayer, std::size_t in, std::size_t out,
                                      std::size_t rank) const {
  const ShortcutForm form = shortcut(sublayer, in, out, rank);
  const bool exact =
      form.dense() || *form.rank == exact_shortcut_rank(widths_[in], widths_[out],
                                                        job_.model.hidden_size, form.factors);
  return exact ? 0.0 : shortcuts_[sublayer].loss_increases[rank];
}

int64_t Search::bytes(const Choice& choice) const {
  int64_t total =
      ends_[choice.tied].at(widths_[choice.widths.front()], widths_[choice.widths.back()]);
  for (std::size_t s = 0; s < sublayers_.size(); ++s) {
    const std::size_t in = choice.widths[s];
    const std::size_t out = choice.widths[s + 1];
    total += bytes(s, in, out, choice.sizes[s], choice.ranks[s]);
  }
  return total;
}

Choice Search::best(double price) const {
  Priced untied = best(price, /*tied=*/false);
  if (!config_.tie_word_embeddings) return std::move(untied.choice);
  Priced tied = best(price, /*tied=*/true);
  return std::move(tied.cost <= untied.cost ? tied.choice : untied.choice);
}

Search::Priced Search::best(double price, bool tied) const {
  const std::size_t junctions = sublayers_.size() + 1;
  constexpr double kUnreached = std::numeric_limits<double>::infinity();
  std::vector<double> cost(grid_, kUnreached);
  std::vector<std::vector<std::size_t>> from(junctions, std::vector<std::size_t>(grid_, 0));
  const auto price_of = [&](int64_t bytes) { return price * static_cast<double>(bytes); };
  for (std::size_t w = first_width(0); w < grid_; ++w) {
    cost[w] = loss_increase(0, 0, w) + price_of(ends_[tied].at(widths_[w], 0));
  }
  for (std::size_t s = 0; s + 1 < junctions; ++s) {
    std::vector<double> next(grid_, kUnreached);
    for (std::size_t in = first_width(s); in < grid_; ++in) {
      for (std::size_t out = first_width(s + 1); out < grid_; ++out) {
        const std::size_t size = size_at(price, s, in, out);
        const std::size_t rank = rank_at(price, s, in, out);
        const int64_t taken = bytes(s, in, out, size, rank);
        const double total = cost[in] + loss_increase(s + 1, in, out) +
                             inner_[s].loss_increases[size] +
                             shortcut_loss_increase(s, in, out, rank) + price_of(taken);
        if (total < next[out]) {
          next[out] = total;
          from[s + 1][out] = in;
        }
      }
    }
    cost = std::move(next);
  }
  for (std::size_t w = 0; w < grid_; ++w) cost[w] += price_of(ends_[tied].out * widths_[w]);

  Choice choice;
  choice.tied = tied;
  choice.widths.resize(junctions);
  choice.widths.back() = static_cast<std::size_t>(std::ranges::min_element(cost) - cost.begin());
  for (std::size_t j = junctions - 1; j > 0; --j) {
    choice.widths[j - 1] = from[j][choice.widths[j]];
  }
  for (std::size_t s = 0; s < sublayers_.size(); ++s) {
    choice.sizes.push_back(size_at(price, s, choice.widths[s], choice.widths[s + 1]));
    choice.ranks.push_back(rank_at(price, s, choice.widths[s], choice.widths[s + 1]));
  }
  return {cost[choice.widths.back()], std::move(choice)};
}

Choice Search::within_limit() const {
  Choice found = best(0.0);
  if (bytes(found) <= limit_) return found;
  constexpr double kLeast = 1e-18;  // loss of a token, for one byte
  constexpr double kMost = 1e6;
  constexpr int kSteps = 80;
  double too_low = kLeast;
  double enough = kMost;
  found = best(enough);
  if (bytes(found) > limit_) {
    throw std::invalid_argument("the smallest widths have more bytes than there may be");
  }
  for (int step = 0; step < kSteps; ++step) {
    const double middle = std::sqrt(too_low * enough);
    Choice choice = best(middle);
    if (bytes(choice) > limit_) {
      too_low = middle;
    } else {
      enough = middle;
      found = std::move(choice);
    }
  }
  return found;
}

Allocation Search::described(const Choice& choice) const {
  Allocation found;
  found.widths = job_.widths;
  for (std::size_t j = 0; j < choice.widths.size(); ++j) {
    found.widths.all.at(j) = widths_[choice.widths[j]];
    const std::size_t in = j == 0 ? 0 : choice.widths[j - 1];
    if (is_mapped(j))
      found.junction_loss_increases.push_back(loss_increase(j, in, choice.widths[j]));
  }
  for (std::size_t s = 0; s < sublayers_.size(); ++s) {
    const bool attends = is_attention(static_cast<int64_t>(s));
    const Part& inner = inner_[s];
    (attends ? found.values : found.features).push_back(inner.sizes[choice.sizes[s]]);
    (attends ? found.value_loss_increases : found.mlp_loss_increases)
        .push_back(inner.loss_increases[choice.sizes[s]]);
    found.shortcut_ranks.push_back(shortcuts_[s].sizes[choice.ranks[s]]);
    found.shortcut_loss_increases.push_back(
        shortcut_loss_increase(s, choice.widths[s], choice.widths[s + 1], choice.ranks[s]));
  }
  found.widths = decided(std::move(found.widths), job_.model.hidden_size);
  return found;
}

Allocation Search::run() const {
  Choice choice = within_limit();
  // Widen the part that lowers the loss most for each byte, as long as there is room.
  while (true) {
    const int64_t before = bytes(choice);
    const double loss_increase_before = described(choice).predicted_loss_increase();
    std::optional<Choice> widest;
    double most = 0.0;
    const auto consider = [&](const Choice& wider) {
      const int64_t more = bytes(wider) - before;
      const double gain = loss_increase_before - described(wider).predicted_loss_increase();
      if (before + more > limit_ || !(gain > 0.0)) return;
      // The shortcut may take fewer bytes once its ends are alike. Then nothing is better.
      const double worth = gain / static_cast<double>(std::max<int64_t>(1, more));
      if (worth <= most) return;
      most = worth;
      widest = wider;
    };
    for (std::size_t j = 0; j < loss_increases_.junctions.size(); ++j) {
      if (choice.widths[j] + 1 == grid_) continue;
      Choice wider = choice;
      ++wider.widths[j];
      consider(wider);
    }
    for (const auto part : {&Choice::sizes, &Choice::ranks}) {
      for (std::size_t s = 0; s < sublayers_.size(); ++s) {
        if ((choice.*part)[s] == 0) continue;
        Choice wider = choice;
        --(wider.*part)[s];
        consider(wider);
      }
    }
    if (!widest) return described(choice);
    choice = *widest;
  }
}

}  // namespace

std::size_t least_allocated_width(const ModelConfig& config, const ResolvedJob& job) {
  ModelConfig as_output = config;
  as_output.dtypes = job.output.dtypes;
  const double share = job.target.allocation->size * static_cast<double>(stored_bytes(config)) /
                       static_cast<double>(stored_bytes(as_output));
  const double least = share * static_cast<double>(job.model.hidden_size) * 2.0 / 3.0;
  const std::vector<int64_t> widths =
      possible_widths(job.model.hidden_size, job.target.allocation->round_to);
  const auto above =
      std::ranges::upper_bound(widths, least, {}, [](int64_t k) { return static_cast<double>(k); });
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, above - widths.begin()) - 1);
}

Allocation search_allocation(const ModelConfig& config, const ResolvedJob& job,
                             const PredictedLossIncreases& loss_increases) {
  return Search(config, job, loss_increases).run();
}

}  // namespace dotresize
