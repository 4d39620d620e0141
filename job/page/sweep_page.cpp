#include "job/page/sweep_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/text/human_text.h"
#include "job/page/figures/sweep_figures.h"

namespace dotresize {
namespace {

int64_t count_of(const StoredSweep& sweep, const char* state) {
  return std::ranges::count(sweep.variants, state, &StoredVariant::state);
}

std::string summary_of(const StoredSweep& sweep) {
  std::string text = counted(sweep.combinations, "combination") + " of settings";
  for (const char* state : {"done", "failed", "refused", "pending"}) {
    if (const int64_t count = count_of(sweep, state)) text += fmt::format(", {} {}", count, state);
  }
  const StoredVariant* best = nullptr;
  for (const StoredVariant& variant : sweep.variants) {
    if (variant.done() && (best == nullptr || variant.perplexity < best->perplexity))
      best = &variant;
  }
  if (best == nullptr) return text + ".";
  text += fmt::format(". Least perplexity: {} at {} of the dense model's bytes",
                      format_perplexity(best->perplexity), format_percent(best->bytes_fraction));
  if (sweep.dense_perplexity) {
    text += fmt::format(", of the dense model {}", format_perplexity(*sweep.dense_perplexity));
  }
  return text + ".";
}

bool has_divergence(const StoredSweep& sweep) {
  return std::ranges::any_of(sweep.variants,
                             [](const StoredVariant& variant) { return variant.kl.has_value(); });
}

std::vector<std::string> row_of(const StoredSweep& sweep, const StoredVariant& variant,
                                bool divergence) {
  std::vector<std::string> row;
  for (const std::string& value : variant.values) row.push_back(value.empty() ? "–" : value);
  row.push_back(variant.state);
  if (!variant.done()) return row;
  row.push_back(std::to_string(variant.width));
  row.push_back(format_percent(variant.bytes_fraction));
  row.push_back(format_perplexity(variant.perplexity));
  row.push_back(sweep.dense_perplexity ? format_change(*sweep.dense_perplexity, variant.perplexity)
                                       : "");
  if (divergence) {
    row.push_back(variant.kl ? format_nats(*variant.kl) : "");
    row.push_back(variant.agreement ? format_percent(*variant.agreement) : "");
  }
  row.emplace_back(variant.pareto ? "yes" : "");
  row.emplace_back(variant.best ? "yes" : "");
  return row;
}

PageTable jobs_of(const StoredSweep& sweep) {
  PageTable table{"Jobs, by net size and perplexity", sweep.axes, {}};
  const bool divergence = has_divergence(sweep);
  for (const std::string name : {"state", "width", "net", "perplexity", "change",
                                 "KL (nats a token)", "agreement", "front", "best of its target"}) {
    const bool of_divergence = name == "agreement" || name.starts_with("KL");
    if (divergence || !of_divergence) table.heading.push_back(name);
  }
  std::vector<const StoredVariant*> order;
  for (const StoredVariant& variant : sweep.variants) {
    if (variant.reason.empty()) order.push_back(&variant);
  }
  std::ranges::stable_sort(order, {}, [](const StoredVariant* variant) {
    return std::tuple(!variant->done(), variant->bytes, variant->perplexity);
  });
  for (const StoredVariant* variant : order) {
    table.rows.push_back(row_of(sweep, *variant, divergence));
    table.rows.back().resize(table.heading.size());
  }
  return table;
}

/// Table of the refused and failed variants with their reasons.
PageTable reasons_of(const StoredSweep& sweep) {
  PageTable table{"Refused and failed", sweep.axes, {}, /*prose=*/true};
  table.heading.emplace_back("state");
  table.heading.emplace_back("reason");
  for (const StoredVariant& variant : sweep.variants) {
    if (variant.reason.empty()) continue;
    table.rows.push_back(row_of(sweep, variant, /*divergence=*/false));
    table.rows.back().resize(table.heading.size() - 1);
    table.rows.back().push_back(variant.reason);
  }
  return table;
}

}  // namespace

Page sweep_page(const StoredSweep& sweep) {
  Page page;
  page.kind = "Sweep";
  page.title = sweep.name.empty() ? "unnamed sweep" : sweep.name;
  page.summary = summary_of(sweep);
  page.figures = sweep_figures(sweep);
  std::vector<std::vector<std::string>> facts = {{"Directory", sweep.directory}};
  if (sweep.dense_bytes)
    facts.push_back({"Bytes of the dense model", human_bytes(*sweep.dense_bytes)});
  if (sweep.dense_perplexity) {
    facts.push_back({"Its perplexity", format_perplexity(*sweep.dense_perplexity)});
  }
  page.tables = {{"The sweep", {"what", "value"}, std::move(facts), /*prose=*/true}};
  page.details = {jobs_of(sweep)};
  if (PageTable reasons = reasons_of(sweep); !reasons.rows.empty()) {
    page.details.push_back(std::move(reasons));
  }
  return page;
}

}  // namespace dotresize
