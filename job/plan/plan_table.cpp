#include "job/plan/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/text/human_text.h"
#include "job/model/dtype_json.h"
#include "job/model/model_size.h"
#include "job/plan/allocate/allocation.h"
#include "job/plan/allocate/inner_widths.h"
#include "job/plan/resolve/asked_size.h"

namespace dotresize {
namespace {

using nlohmann::json;

/// Name of a shard: "embed, layers.0 attention … layers.1 mlp".
std::string shard_name(const ModelConfig& config, const RankShard& shard) {
  const bool first = shard.first_sublayer == 0;
  const bool last = shard.end_sublayer == config.num_sublayers();
  const auto spaced_name = [](int64_t sublayer) {
    return fmt::format("layers.{} {}", layer_of(sublayer),
                       is_attention(sublayer) ? "attention" : "mlp");
  };
  std::string name = spaced_name(shard.first_sublayer);
  if (shard.end_sublayer - shard.first_sublayer > 1) {
    name += " … " + spaced_name(shard.end_sublayer - 1);
  }
  return (first ? "embed, " : "") + name + (last ? ", head" : "");
}

std::string rank_rows(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  using Row = std::vector<std::string>;
  const bool gpus = job.resources.gpu_compute_dtype.has_value();
  std::vector<Row> rows = {{"rank", "sublayers", "parameters", "bytes", "peak memory"}};
  if (gpus) rows.front().push_back("GPU memory");
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankShard& shard = plan.ranks[rank];
    Row& row = rows.emplace_back(
        Row{std::to_string(rank), shard_name(config, shard), with_separators(shard.size.parameters),
            human_bytes(shard.size.bytes), human_bytes(shard.peak_memory_bytes)});
    if (gpus) row.push_back(human_bytes(*shard.peak_device_memory_bytes));
  }
  std::vector<Align> alignment(rows.front().size(), Align::kRight);
  alignment[1] = Align::kLeft;
  return format_table(rows, alignment);
}

/// Row with the number of passes over the tokens, and of junctions at a time.
std::string passes_row(const ResolvedJob& job, const ShardPlan& plan) {
  const int64_t junctions = job.widths.mapped_count;
  const char* const writing =
      plan.ranks.front().overlaps ? "" : "; nothing is written in the background, to save memory";
  if (plan.passes == 0 && !takes_no_tokens(job)) {
    return fmt::format("passes      none over the tokens: no junction is narrower{}", writing);
  }
  if (!job.schedule.pipelined) {
    const int64_t together = plan.ranks.front().solved_together;
    return fmt::format("passes      {} over the tokens, {} of {} junctions at a time{}",
                       plan.passes, together == 1 ? "one" : std::to_string(together), junctions,
                       writing);
  }
  if (takes_no_tokens(job)) {
    return fmt::format("passes      none over the tokens: the statistics of {}{}",
                       job.statistics.use.string(), writing);
  }
  const std::string back =
      job.gradients() ? fmt::format(" and {} back", plan.passes_back) : std::string();
  const std::string groups =
      junctions == 0 ? ""
                     : fmt::format(", {} junctions in {} {}", junctions, plan.junction_groups,
                                   plan.junction_groups == 1 ? "group" : "groups");
  return fmt::format("passes      {} over the tokens{}{}{}", plan.passes, back, groups, writing);
}

/// Shortcuts and their forms: "exact, 11 of rank 56, 1 of rank 0".
std::string shortcuts_text(const ResolvedJob& job, const ModelConfig& output) {
  if (job.stock_output() || job.widths.mapped_count == 0) return "none";
  std::vector<std::pair<std::string, int64_t>> counts;
  for (int64_t s = 0; s < output.num_sublayers(); ++s) {
    const ShortcutForm form = output.shortcut(s);
    const std::string name = form.dense() ? "dense" : fmt::format("of rank {}", *form.rank);
    const auto found = std::ranges::find(counts, name, &std::pair<std::string, int64_t>::first);
    if (found == counts.end()) {
      counts.emplace_back(name, 1);
    } else {
      ++found->second;
    }
  }
  std::string text = "exact";
  for (const auto& [name, count] : counts) text += fmt::format(", {} {}", count, name);
  return text;
}

/// Returns the bound of an output whose sizes the loss will choose: the bytes that the job asks
/// for, or the whole model in the output's dtypes if that has fewer.
int64_t bytes_at_most(const JobPlan& plan) {
  return std::min(largest_bytes(plan.job.target.allocation->size, plan.size.dense_bytes),
                  plan.size.compressed_bytes);
}

/// Returns the row of the heading for what the loss will choose: "up to 1536 features".
std::string parts_row(const ModelConfig& config, const ResolvedJob& job) {
  std::vector<std::string> parts;
  for (const Unit* unit : job.target.allocation->units) {
    int64_t most = 0;
    for (const LayerSpec& layer : config.layers) most = std::max(most, unit->size(layer));
    parts.push_back(fmt::format("{} {}", most, unit->parts));
  }
  return fmt::format("parts       of a layer up to {}, known once the activations are\n",
                     listed(parts));
}

/// Returns the row of the heading for MLPs and experts, "640 of 768 features". Empty if they are
/// not cut.
std::string mlp_row(const ModelConfig& config, const ResolvedJob& job) {
  if (!job.mlp) return "";
  if (!job.sizes_known()) return parts_row(config, job);
  std::string text;
  if (job.mlp->width > 0) {
    text = fmt::format("{} of {} features", job.mlp->width, dense_features(config));
  }
  if (job.mlp->expert_width > 0) {
    text += fmt::format("{}{} of {} of each expert", text.empty() ? "" : ", ",
                        job.mlp->expert_width, expert_features(config));
  }
  return fmt::format("mlp         {}\n", text);
}

std::string heading(const JobPlan& plan) {
  const ResolvedJob& job = plan.job;
  return fmt::format(
      "{}: {}{}, format {}, {} schedule\ntarget      {}\nnominal     width {}, {:.1f} % "
      "narrower\n{}shortcuts   {}\n",
      job.name, job.target.allocation ? "sizes by loss" : job.method.name,
      job.gradients() ? ", metric fisher" : "", job.stock_output() ? "stock" : "any",
      job.schedule.name, target_text(job), width_text(job.widths, job.model.hidden_size),
      100.0 * job.widths.nominal_sparsity(job.model.hidden_size), mlp_row(plan.model, job),
      shortcuts_text(job, plan.output));
}

json rank_json(const ModelConfig& config, const RankShard& shard, std::size_t rank) {
  json object = {{"rank", rank},
                 {"sublayers", shard_name(config, shard)},
                 {"first_sublayer", shard.first_sublayer},
                 {"end_sublayer", shard.end_sublayer},
                 {"parameters", shard.size.parameters},
                 {"bytes", shard.size.bytes},
                 {"peak_memory_bytes", shard.peak_memory_bytes}};
  if (shard.peak_device_memory_bytes) {
    object["peak_device_memory_bytes"] = *shard.peak_device_memory_bytes;
  }
  return object;
}

json formats_json(const ServedSizes& sizes) {
  json formats = json::array();
  for (const ServedSize& each : sizes.formats) {
    formats.push_back({{"format", each.format},
                       {"dense_bytes", each.dense_bytes},
                       {"compressed_bytes", each.compressed_bytes},
                       {"unfit_rows", each.unfit_rows}});
  }
  json document = {{"formats", formats}};
  if (sizes.assumed_features > 0) document["assumed_features"] = sizes.assumed_features;
  return document;
}

/// Row with the bytes of the source's files, if there is more in them than the model.
std::string files_row(const ModelConfig& model, int64_t net_bytes) {
  if (model.files.bytes > 0 && model.files.quantisation) {
    return fmt::format("on disk     {} of tensors, {}; read as bfloat16, in which sizes count\n",
                       human_bytes(model.files.bytes), model.files.quantisation->name);
  }
  const int64_t read = net_bytes + model.copied_bytes();
  if (model.files.bytes == 0 || model.files.bytes == read) return "";
  return fmt::format("on disk     {} of tensors, {} of them not of the model\n",
                     human_bytes(model.files.bytes), human_bytes(model.files.bytes - read));
}

/// Rows about the model around the one of text. Empty if there is none.
std::string wrapper_rows(const ModelConfig& model) {
  if (!model.files.wrapper) return "";
  return fmt::format(
      "around it   {}: {}, {}, copied as they are; all sizes are those of the text part, a {}\n"
      "calibrated  on text alone, without images\n",
      model.files.wrapper->model_type, counted(model.files.wrapper->other_tensors, "tensor"),
      human_bytes(model.files.wrapper->other_bytes), model.family);
}

/// Warning about a result that is too large, or whose layers would be too small; empty: neither.
std::string size_warning(const JobPlan& plan) {
  if (!plan.job.sizes_known()) return allocation_warning(plan.model, plan.job);
  return size_warning(plan.size, plan.job, stored_dtypes(plan.model), stored_dtypes(plan.output));
}

/// Multiplications of the dense model over those of the output without maps, per token of a prompt.
std::optional<double> speed_of(const JobPlan& plan) {
  const ResolvedJob& job = plan.job;
  if (!job.sizes_known()) {
    return speed_at_size(job.target.allocation->size, plan.model, job.output.dtypes);
  }
  if (job.widths.mapped_count > 0) return std::nullopt;
  return static_cast<double>(prompt_multiplications(plan.model)) /
         static_cast<double>(prompt_multiplications(plan.output));
}

/// Adds the result's size and widths, or the bound while they are not known.
void add_size(json& document, const JobPlan& plan) {
  const ResolvedJob& job = plan.job;
  const NetSize& size = plan.size;
  const std::string warning = size_warning(plan);
  if (!warning.empty()) document["warnings"].push_back(warning);
  json& compressed = document["compressed"];
  if (!job.sizes_known()) {
    compressed["bytes_at_most"] = bytes_at_most(plan);
    compressed["bytes_fraction_at_most"] =
        std::min(job.target.allocation->size, size.bytes_fraction());
    if (const auto speed = speed_of(plan)) compressed["speed"] = *speed;
    return;
  }
  if (const auto speed = speed_of(plan)) compressed["speed"] = *speed;
  compressed["parameters"] = size.compressed_parameters;
  compressed["bytes"] = size.compressed_bytes;
  compressed["parameters_fraction"] = size.parameters_fraction();
  compressed["bytes_fraction"] = size.bytes_fraction();
  document["width"] = job.widths.largest();
  document["nominal_sparsity"] = job.widths.nominal_sparsity(job.model.hidden_size);
  document["ratio"] = size.parameters_fraction();
}

}  // namespace

std::string target_text(const ResolvedJob& job) {
  if (job.target.sparsity) return fmt::format("sparsity {}", *job.target.sparsity);
  if (job.target.size) return fmt::format("size {:.6g}", *job.target.size);
  if (job.target.allocation)
    return fmt::format("size {:.6g}, allocated by loss", job.target.allocation->size);
  return fmt::format("width {}", job.widths.largest());
}

std::string width_range(int64_t least, int64_t largest) {
  return least == largest ? std::to_string(least) : fmt::format("{} to {}", least, largest);
}

std::string width_text(const JunctionWidths& widths, int64_t hidden_size) {
  return fmt::format("{} of {}", width_range(widths.smallest(), widths.largest()), hidden_size);
}

std::string time_table(const TimeEstimate& time) {
  const double total = time.total();
  std::vector<std::vector<std::string>> rows = {{"phase", "s", "share"}};
  for (const PhaseTimes::Phase& phase : time.phases) {
    const std::string seconds = phase.seconds < 100.0
                                    ? fmt::format("{:.2f}", phase.seconds)
                                    : with_separators(std::llround(phase.seconds));
    rows.push_back({phase.name, seconds, fmt::format("{:.1f} %", 100.0 * phase.seconds / total)});
  }
  std::string table = format_table(rows, {Align::kLeft, Align::kRight, Align::kRight});
  table.pop_back();
  return "time        " + format_duration(total) + "\n" + table;
}

std::string plan_table(const JobPlan& plan, const std::optional<TimeEstimate>& time) {
  const ResolvedJob& job = plan.job;
  const NetSize& size = plan.size;
  const Traffic& moved = plan.traffic;
  const std::string statistics =
      job.statistics.saved()
          ? fmt::format(" and {} for the statistics", human_bytes(moved.statistics_bytes))
          : "";
  const std::string traffic = fmt::format(
      "traffic     {} read, {} sent between ranks, {} written, of it {} for the journal{}",
      human_bytes(moved.read_bytes), human_bytes(moved.sent_bytes),
      human_bytes(moved.written_bytes), human_bytes(moved.journal_bytes), statistics);
  const auto size_row = [](const char* what, int64_t parameters, int64_t bytes,
                           const StoredDtypes& dtypes) {
    return fmt::format("{:<10}  {:>17} parameters  {:>10}  {}", what, with_separators(parameters),
                       human_bytes(bytes), to_string(dtypes));
  };
  std::string result;
  if (job.sizes_known()) {
    result = size_row("compressed", size.compressed_parameters, size.compressed_bytes,
                      stored_dtypes(plan.output)) +
             fmt::format("\nnet size    {:.1f} % of the dense parameters, {:.1f} % of the bytes",
                         100.0 * size.parameters_fraction(), 100.0 * size.bytes_fraction());
  } else {  // an upper bound, until the loss decides
    result = fmt::format("compressed  at most {} bytes, {:.1f} % of the dense ones",
                         with_separators(bytes_at_most(plan)),
                         100.0 * std::min(job.target.allocation->size, size.bytes_fraction()));
  }
  if (const auto speed = speed_of(plan)) {
    result += fmt::format(
        "\nspeed       {:.2f} times the dense model's, by counted multiplications, the head's "
        "included",
        *speed);
  }
  if (const std::string warning = size_warning(plan); !warning.empty()) {
    result += "\nwarning: " + warning;
  }
  std::string served = served_sizes_table(plan.served);
  if (!served.empty()) {
    served.pop_back();
    served.insert(0, "\n\n");
  }
  const std::string windows = fmt::format("windows     {} of {} tokens", expected_samples(job),
                                          expected_seqlen(job, plan.model));
  return fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n{}{}{}{}{}", heading(plan), rank_rows(plan.model, job, plan.shards),
      windows, passes_row(job, plan.shards), traffic,
      size_row("dense", size.dense_parameters, size.dense_bytes, stored_dtypes(plan.model)),
      files_row(plan.model, size.dense_bytes), wrapper_rows(plan.model), result, served,
      time ? "\n\n" + time_table(*time) : "");
}

std::string plan_to_json(const JobPlan& planned, const std::optional<TimeEstimate>& time) {
  const ResolvedJob& job = planned.job;
  const ShardPlan& plan = planned.shards;
  const NetSize& size = planned.size;
  const Traffic& traffic = planned.traffic;
  json document = {
      {"schema_version", 1},
      {"name", job.name},
      {"method", job.method.name},
      {"metric", to_string(job.maps.metric)},
      {"map_sharing", job.maps.sharing()},
      {"shortcuts", job.widths.mapped_count == 0 || job.stock_output() ? "none" : "exact"},
      {"target", target_text(job)},
      {"hidden_size", planned.model.hidden_size},
      {"calibration",
       {{"samples", expected_samples(job)}, {"seqlen", expected_seqlen(job, planned.model)}}},
      {"schedule", job.schedule.name},
      {"passes", plan.passes},
      {"backward_passes", plan.passes_back},
      {"junction_groups", plan.junction_groups},
      {"solved_together", plan.ranks.front().solved_together},
      {"overlaps", plan.ranks.front().overlaps},
      {"traffic",
       {{"read_bytes", traffic.read_bytes},
        {"sent_bytes", traffic.sent_bytes},
        {"written_bytes", traffic.written_bytes},
        {"journal_bytes", traffic.journal_bytes},
        {"statistics_bytes", traffic.statistics_bytes}}},
      {"ranks", json::array()},
      {"dense", dtypes_json(stored_dtypes(planned.model))},
      {"compressed", dtypes_json(stored_dtypes(planned.output))},
      {"served", formats_json(planned.served)},
      {"warnings", json::array()}};
  if (job.mlp) {
    document["mlp_groups"] = plan.cut_groups;
    const bool known = !job.mlp->allocated;
    document["mlp_widths"] = known ? "uniform" : "by_loss";
    if (known && job.mlp->width > 0) document["mlp_width"] = job.mlp->width;
    if (known && job.mlp->expert_width > 0) document["expert_width"] = job.mlp->expert_width;
  }
  document["dense"]["parameters"] = size.dense_parameters;
  document["dense"]["bytes"] = size.dense_bytes;
  if (planned.model.files.wrapper) {
    document["wrapper"] = {{"model_type", planned.model.files.wrapper->model_type},
                           {"copied_tensors", planned.model.files.wrapper->other_tensors},
                           {"copied_bytes", planned.model.copied_bytes()}};
  }
  if (planned.model.files.bytes > 0) document["dense"]["file_bytes"] = planned.model.files.bytes;
  add_size(document, planned);
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    document["ranks"].push_back(rank_json(planned.model, plan.ranks[rank], rank));
  }
  if (time) {
    json& seconds = document["seconds"] = {{"total", time->total()}, {"phases", json::object()}};
    for (const auto& [name, of_phase] : time->phases) seconds["phases"][name] = of_phase;
  }
  return document.dump(2);
}

}  // namespace dotresize
