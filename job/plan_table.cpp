#include "job/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "job/human_numbers.h"
#include "job/net_size.h"

namespace dotresize {
namespace {

using nlohmann::json;

std::string sublayer_name(int64_t sublayer) {
  return fmt::format("layers.{} {}", sublayer / 2, sublayer % 2 == 0 ? "attention" : "mlp");
}

/// "embed, layers.0 attention … layers.1 mlp".
std::string shard_name(const ModelConfig& config, const RankShard& shard) {
  const bool first = shard.first_sublayer == 0;
  const bool last = shard.end_sublayer == config.num_sublayers();
  std::string name = sublayer_name(shard.first_sublayer);
  if (shard.end_sublayer - shard.first_sublayer > 1) {
    name += " … " + sublayer_name(shard.end_sublayer - 1);
  }
  return (first ? "embed, " : "") + name + (last ? ", head" : "");
}

std::string rank_rows(const ModelConfig& config, const ShardPlan& plan) {
  std::size_t width = std::string("sublayers").size();
  for (const RankShard& shard : plan.ranks) {
    width = std::max(width, shard_name(config, shard).size());
  }
  constexpr const char* kRow = "{:>4}  {:<{}}  {:>17}  {:>10}  {:>11}\n";
  std::string rows =
      fmt::format(kRow, "rank", "sublayers", width, "parameters", "bytes", "peak memory");
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankShard& shard = plan.ranks[rank];
    rows +=
        fmt::format(kRow, rank, shard_name(config, shard), width, with_separators(shard.parameters),
                    human_bytes(shard.bytes), human_bytes(shard.peak_memory_bytes));
  }
  return rows;
}

std::string size_row(const char* what, int64_t parameters, int64_t bytes, Dtype dtype) {
  return fmt::format("{:<10}  {:>17} parameters  {:>10}  {}", what, with_separators(parameters),
                     human_bytes(bytes), to_string(dtype));
}

json rank_json(const ModelConfig& config, const RankShard& shard, std::size_t rank) {
  return {{"rank", rank},
          {"sublayers", shard_name(config, shard)},
          {"first_sublayer", shard.first_sublayer},
          {"end_sublayer", shard.end_sublayer},
          {"parameters", shard.parameters},
          {"bytes", shard.bytes},
          {"peak_memory_bytes", shard.peak_memory_bytes}};
}

}  // namespace

std::string plan_table(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  const NetSize size = net_size(config, job);
  const std::string warning = size_warning(size, job);
  return fmt::format(
      "{}: {} to width {} of {}, {} schedule\n\n{}\n{}\n{}  {:.1f} % of the dense parameters{}",
      job.name, to_string(job.method), job.width, config.hidden_size, to_string(job.schedule),
      rank_rows(config, plan),
      size_row("dense", size.dense_parameters, size.dense_bytes, job.source_dtype),
      size_row("compressed", size.compressed_parameters, size.compressed_bytes, job.output_dtype),
      100.0 * size.ratio(), warning.empty() ? "" : "\nwarning: " + warning);
}

std::string plan_to_json(const ModelConfig& config, const ResolvedJob& job, const ShardPlan& plan) {
  const NetSize size = net_size(config, job);
  const std::string warning = size_warning(size, job);
  json document = {{"schema_version", 1},
                   {"name", job.name},
                   {"method", to_string(job.method)},
                   {"width", job.width},
                   {"hidden_size", config.hidden_size},
                   {"schedule", to_string(job.schedule)},
                   {"ranks", json::array()},
                   {"dense",
                    {{"parameters", size.dense_parameters},
                     {"bytes", size.dense_bytes},
                     {"dtype", to_string(job.source_dtype)}}},
                   {"compressed",
                    {{"parameters", size.compressed_parameters},
                     {"bytes", size.compressed_bytes},
                     {"dtype", to_string(job.output_dtype)}}},
                   {"ratio", size.ratio()},
                   {"warnings", warning.empty() ? json::array() : json::array({warning})}};
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    document["ranks"].push_back(rank_json(config, plan.ranks[rank], rank));
  }
  return document.dump(2);
}

}  // namespace dotresize
