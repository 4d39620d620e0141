#include "worker/commands/run/rank_summary.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "base/environment.h"
#include "base/sha256.h"
#include "base/version.h"
#include "job/model/model_size.h"
#include "job/model/sublayers.h"
#include "job/plan/net_size.h"
#include "worker/commands/run/cost_rate.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// Objects of all ranks merged into one, on rank 0.
Json gather_object(Communicator& comm, const Json& mine) {
  Json all = Json::object();
  for (const std::string& text : gather_strings(comm, mine.dump(), 0))
    all.update(Json::parse(text));
  return all;
}

Json diagnostics_to_json(const MapDiagnostics& d) {
  Json json = {{"effective_rank", d.effective_rank},
               {"retained_energy", d.retained_energy},
               {"iterations", d.sinkhorn_iterations},
               {"violation", d.sinkhorn_violation},
               {"converged", d.sinkhorn_converged},
               {"qr_condition", d.qr_condition},
               {"half_cost", d.half_cost}};
  if (d.half_cost_error) json["half_cost_error"] = *d.half_cost_error;
  return json;
}

void fill_in(JunctionReport& report, const Json& diagnostics, bool transport) {
  report.effective_rank = diagnostics.at("effective_rank");
  report.retained_energy = diagnostics.at("retained_energy");
  if (!transport) return;
  report.sinkhorn_iterations = diagnostics.at("iterations").get<int64_t>();
  report.sinkhorn_violation = diagnostics.at("violation").get<double>();
  report.sinkhorn_converged = diagnostics.at("converged").get<bool>();
  report.qr_condition = diagnostics.at("qr_condition").get<double>();
  report.cost_dtype = diagnostics.at("half_cost").get<bool>() ? Dtype::kFloat16 : Dtype::kFloat32;
  if (diagnostics.contains("half_cost_error")) {
    report.cost_error = diagnostics.at("half_cost_error").get<double>();
  }
}

int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

CostReport cost_from_json(const Json& cost) {
  return {cost.at("pairs"), cost.at("seconds"), cost.at("limit")};
}

Json describe_rank(const PhaseClock& clock, const ChosenDevice& device) {
  Json rank = {{"host", host_name()},
               {"gpu", device.name},
               {"seconds", clock.seconds()},
               {"peak_memory_bytes", peak_resident_bytes()}};
  if (device.cuda) rank["peak_device_memory_bytes"] = device.cuda->peak_memory_bytes();
  if (const auto cost = cost_report(clock, device)) {
    rank["cost"] = {
        {"pairs", cost->pairs}, {"seconds", cost->seconds}, {"limit", cost->limit_pairs_per_s}};
  }
  return rank;
}

}  // namespace

std::vector<JunctionReport> gather_junctions(Communicator& comm, const ResolvedJob& job,
                                             const ModelConfig& config,
                                             const std::map<int64_t, MapDiagnostics>& solved) {
  Json mine = Json::object();
  for (const auto& [junction, diagnostics] : solved) {
    mine[junction_name(junction)] = diagnostics_to_json(diagnostics);
  }
  const Json all = gather_object(comm, mine);
  if (comm.rank() != 0) return {};
  const bool transport = job.method.transport();
  std::vector<JunctionReport> reports;
  for (int64_t junction = 0; junction < config.num_junctions(); ++junction) {
    JunctionReport& report = reports.emplace_back();
    report.name = junction_name(junction);
    report.width = job.junction_widths[static_cast<size_t>(junction)];
    report.mapped = all.contains(report.name);
    if (report.mapped) fill_in(report, all.at(report.name), transport);
  }
  return reports;
}

std::map<std::string, std::string> gather_hashes(Communicator& comm, const fs::path& dir,
                                                 const ShardLayout& layout) {
  Json mine = Json::object();
  for (const ShardLayout::Shard& shard : layout.shards) {
    if (shard.rank == comm.rank()) mine[shard.file] = sha256_of_file(dir / shard.file);
  }
  return gather_object(comm, mine).get<std::map<std::string, std::string>>();
}

std::map<std::string, std::string> gather_input_hashes(Communicator& comm,
                                                       const fs::path& model_dir,
                                                       std::vector<fs::path> files) {
  files.push_back(model_dir / "config.json");
  Json mine = Json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    if (static_cast<int>(i % static_cast<size_t>(comm.size())) != comm.rank()) continue;
    mine[files[i].filename().string()] = sha256_of_file(files[i]);
  }
  return gather_object(comm, mine).get<std::map<std::string, std::string>>();
}

std::vector<RankReport> gather_ranks(Communicator& comm, const ShardPlan& plan,
                                     const PhaseClock& clock, const ChosenDevice& device) {
  const Json mine = describe_rank(clock, device);
  std::vector<RankReport> reports;
  for (const std::string& text : gather_strings(comm, mine.dump(), 0)) {
    const Json rank = Json::parse(text);
    RankReport& report = reports.emplace_back();
    report.rank = static_cast<int>(reports.size()) - 1;
    const RankShard& shard = plan.ranks[reports.size() - 1];
    report.host = rank.at("host");
    report.gpu = rank.at("gpu");
    report.first_sublayer = shard.first_sublayer;
    report.end_sublayer = shard.end_sublayer;
    report.seconds = rank.at("seconds").get<std::map<std::string, double>>();
    report.peak_memory_bytes = rank.at("peak_memory_bytes");
    if (rank.contains("peak_device_memory_bytes")) {
      report.peak_device_memory_bytes = rank.at("peak_device_memory_bytes").get<int64_t>();
    }
    if (rank.contains("cost")) report.cost = cost_from_json(rank.at("cost"));
  }
  return reports;
}

void complete_report(Report& report, const ResolvedJob& job, const ModelConfig& config,
                     const ShardLayout& layout) {
  report.tool_version = kVersion;
  report.job = job;
  report.dense.parameters = stored_parameters(config);
  report.dense.bytes = report.dense.parameters * size_in_bytes(job.source_dtype);
  report.compressed.parameters = layout.total_parameters;
  report.compressed.bytes = layout.total_bytes;
  const std::string larger = size_warning({report.dense.parameters, report.dense.bytes,
                                           report.compressed.parameters, report.compressed.bytes},
                                          job);
  if (!larger.empty()) report.warnings.push_back(larger);
  for (const JunctionReport& junction : report.junctions) {
    if (junction.sinkhorn_converged.value_or(true)) continue;
    report.warnings.push_back("junction " + junction.name + ": Sinkhorn did not converge in " +
                              std::to_string(*junction.sinkhorn_iterations) +
                              " iterations; its map was accepted as the job asked");
  }
}

}  // namespace dotresize
