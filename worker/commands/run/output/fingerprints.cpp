#include "worker/commands/run/output/fingerprints.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/process/program.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

/// Revision of the sums in a journal, for builds of one version that sum something else.
constexpr int kSums = 2;

/// Returns the program's version, the model's files, the device and the compute dtype.
Json model_fingerprint(const ResolvedJob& job, const std::vector<fs::path>& weights) {
  Json model = {{"config.json", sha256_of_file(job.model.path / "config.json")}};
  for (const fs::path& file : weights) {
    // Size and time change with the file, and reading all of it would take long.
    model[file.filename().string()] = {
        {"bytes", fs::file_size(file)},
        {"modified", fs::last_write_time(file).time_since_epoch().count()}};
  }
  return {{"version", kVersion},
          {"model", std::move(model)},
          {"device", to_string(job.resources.device)},
          {"compute_dtype", to_string(job.resources.compute_dtype)}};
}

void add_calibration(const TokenWindows& calibration, Json& fingerprint) {
  fingerprint["sums"] = kSums;
  fingerprint["calibration_tokens"] = calibration.fingerprint;
  fingerprint["calibration"] = {{"samples", calibration.windows.size(0)},
                                {"seqlen", calibration.windows.size(1)}};
}

Json method_options(const ResolvedJob& job) {
  Json options = {{"name", job.method.name},
                  {"lambda", job.maps.lambda},
                  {"map_sharing", job.maps.sharing()},
                  {"head_sliced", job.maps.head_sliced},
                  {"accept_nonconvergence", job.maps.accept_nonconvergence}};
  if (job.gradients()) options["metric"] = to_string(job.maps.metric);
  if (job.mlp) {
    options["mlp"] = {{"width", job.mlp->width}, {"expert_width", job.mlp->expert_width}};
    if (job.mlp->allocated) options["mlp"]["by_loss_in_steps_of"] = job.mlp->round_to;
  }
  if (job.target.allocation) {
    options["allocate"] = {{"size", job.target.allocation->size}, {"round_to", job.mlp->round_to}};
    return options;
  }
  options["width"] = job.widths.largest();
  return options;
}

}  // namespace

Json job_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                     const TokenWindows& healing, const std::vector<fs::path>& weights) {
  Json fingerprint = model_fingerprint(job, weights);
  add_calibration(calibration, fingerprint);
  fingerprint["method"] = method_options(job);
  fingerprint["schedule"] = job.schedule.name;
  fingerprint["output_dtype"] = to_string(job.output.dtypes);
  if (job.healing) {
    fingerprint["heal"] = {{"epochs", job.healing->epochs},
                           {"learning_rate", job.healing->learning_rate},
                           {"tokens", healing.fingerprint}};
  }
  return fingerprint;
}

Json statistics_fingerprint(const ResolvedJob& job, const TokenWindows& calibration,
                            const std::vector<fs::path>& weights) {
  Json fingerprint = model_fingerprint(job, weights);
  add_calibration(calibration, fingerprint);
  if (job.target.allocation) {
    fingerprint["allocation"] = {{"round_to", job.mlp->round_to},
                                 {"value_heads", job.cuts_attentions()}};
  }
  fingerprint["basis"] = job.method.pca() ? "pca" : "identity";
  fingerprint["metric"] = to_string(job.maps.metric);
  const SumsOfPasses sums = job.method.sums();
  fingerprint[kCosts] = sums.in_basis().cost;
  fingerprint[kBases] = sums.second.any() && job.maps.shared ? kSharedBasis : kOwnBases;
  return fingerprint;
}

Json dense_loss_fingerprint(const ResolvedJob& job, const TokenWindows& evaluation,
                            const std::vector<fs::path>& weights) {
  Json fingerprint = model_fingerprint(job, weights);
  fingerprint["evaluation_tokens"] = evaluation.fingerprint;
  fingerprint["evaluation"] = {{"samples", evaluation.windows.size(0)},
                               {"seqlen", evaluation.windows.size(1)}};
  return fingerprint;
}

std::string difference(const Json& wanted, const Json& found, const std::string& where) {
  const Json mine = wanted.flatten();
  const Json others = found.flatten();
  const auto text = [](const Json& object, const std::string& key) {
    return object.contains(key) ? printable(object.at(key).dump()) : "absent";
  };
  Json all = mine;
  all.update(others);
  for (const auto& [key, value] : all.items()) {
    if (mine.contains(key) && others.contains(key) && mine.at(key) == others.at(key)) continue;
    std::string name = key.empty() ? "all of it" : key.substr(1);
    for (char& c : name) c = c == '/' ? '.' : c;
    return fmt::format("{} is {}, and {} in {}", printable(name), text(mine, key),
                       text(others, key), where);
  }
  return "";
}

}  // namespace dotresize
