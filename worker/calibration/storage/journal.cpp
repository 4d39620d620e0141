#include "worker/calibration/storage/journal.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.h"
#include "base/files/confinement.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/files/output_owner.h"
#include "base/files/partial_path.h"
#include "base/text/checked_json.h"
#include "base/text/sha256.h"
#include "job/report/report_entries.h"
#include "worker/checkpoint/reader.h"
#include "worker/checkpoint/writer.h"
#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr char kTensors[] = ".safetensors";
constexpr char kAbout[] = ".json";
constexpr char kUnfinished[] = ".tmp";
constexpr size_t kMaxAboutBytes = 1 << 16;

/// Reads NAME.json. Throws InputError if the file cannot be read, or is not JSON.
Json read_about(const fs::path& file) {
  try {
    return Json::parse(read_whole_file(file.string(), kMaxAboutBytes));
  } catch (const Json::exception& error) {
    throw InputError(shown_path(file) + ": " + error.what());
  }
}

std::string hash_of(const Json& value) {
  const std::string text = value.dump();
  return sha256_of_bytes(text.data(), text.size());
}

/// Throws the error for an entry that has changed since the run began.
[[noreturn]] void refuse(const fs::path& file) {
  throw std::runtime_error(shown_path(file) +
                           " was changed while the job ran: run the job again, which computes a "
                           "damaged entry again");
}

/// Returns true if the entry matches the hash in `about`: its JSON value, or its file of tensors.
bool is_whole(const fs::path& about, const fs::path& tensors) {
  try {
    const Json found = read_about(about);
    if (found.contains("value")) return found.at("sha256") == hash_of(found.at("value"));
    return sha256_of_file(tensors) == found.at("sha256").get<std::string>();
  } catch (const InputError&) {
    return false;
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace

void Journal::remove_unfinished(const fs::path& dir) {
  for (const fs::directory_entry& file : fs::directory_iterator(dir)) {
    if (file.path().filename().string().find(kUnfinished) != std::string::npos) files::remove(file);
  }
}

Journal::Journal(fs::path dir) : dir_(std::move(dir)) {
  for (const fs::directory_entry& file : fs::directory_iterator(dir_)) {
    const fs::path name = file.path().filename();
    if (name == kJournalOfJob || name == kOwnerOfOutput) continue;
    if (name.extension() == kAbout) entries_.insert(name.stem());
  }
}

fs::path Journal::path(const std::string& name, const char* extension) const {
  return dir_ / (name + extension);
}

void Journal::put_about(const std::string& name, const Json& about) {
  write_file_atomically(path(name, kAbout), about.dump());
  entries_.insert(name);
}

void Journal::put(const std::string& name, const std::map<std::string, at::Tensor>& tensors) {
  put_about(name, {{"sha256", write(name, tensors)}});
}

std::string Journal::write(const std::string& name,
                           const std::map<std::string, at::Tensor>& tensors) const {
  const fs::path file = path(name, kTensors);
  fs::path unfinished = file;
  unfinished += kUnfinished;
  ShardLayout layout;
  ShardLayout::Shard& shard = layout.shards.emplace_back();
  shard.file = unfinished.filename();
  std::set<std::string> names;
  for (const auto& [tensor_name, tensor] : tensors) {
    shard.tensors.push_back({tensor_name, tensor.scalar_type(), tensor.sizes().vec()});
    names.insert(tensor_name);
  }
  create_shards(dir_, layout);
  ShardWriter writer(dir_, layout, names);
  for (const auto& [tensor_name, tensor] : tensors) writer.write(tensor_name, tensor);
  // The file is hashed while the system writes it to disk.
  std::future<std::string> hash =
      std::async(std::launch::async, [&] { return sha256_of_file(unfinished); });
  writer.finish();
  const std::string sha256 = hash.get();
  files::rename(unfinished, file);
  sync_directory(dir_);
  return sha256;
}

void BackgroundEntry::put(const std::string& name, std::map<std::string, at::Tensor> tensors) {
  finish();
  name_ = name;
  hash_ = std::async(std::launch::async, [this, tensors = std::move(tensors)] {
    return journal_.write(name_, tensors);
  });
}

void BackgroundEntry::finish() {
  if (hash_.valid()) journal_.put_about(name_, {{"sha256", hash_.get()}});
}

std::map<std::string, at::Tensor> Journal::get(const std::string& name) const {
  const SafetensorsFile file(path(name, kTensors));
  if (read_about(path(name, kAbout)).value("sha256", "") != file.sha256()) refuse(file.path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : file.header.tensors) {
    tensors.emplace(entry.first, file.tensor(entry.first));
  }
  return tensors;
}

fs::path Journal::tensors_file(const std::string& name) const {
  fs::path file = path(name, kTensors);
  if (!is_whole(path(name, kAbout), file)) refuse(file);
  return file;
}

void Journal::remove(const std::string& name) {
  files::remove(path(name, kAbout));  // first, so that the entry is gone from here on
  files::remove(path(name, kTensors));
  entries_.erase(name);
}

std::vector<std::string> Journal::damaged(int part, int parts) const {
  std::vector<std::string> damaged;
  int index = 0;
  for (const std::string& name : entries_) {
    if (index++ % parts != part) continue;
    if (!is_whole(path(name, kAbout), path(name, kTensors))) damaged.push_back(name);
  }
  return damaged;
}

void Journal::put_map(int64_t number, const JunctionMap& map, const at::Tensor& support) {
  std::map<std::string, at::Tensor> tensors = {{"M", map.M}, {"support", support}};
  if (map.oblique) tensors["M_inv"] = map.M_inv;
  put(entries::kMap(number), tensors);
}

JunctionMap Journal::map(int64_t number) const {
  const std::map<std::string, at::Tensor> tensors = get(entries::kMap(number));
  const at::Tensor& M = tensors.at("M");
  const auto M_inv = tensors.find("M_inv");
  return M_inv == tensors.end() ? JunctionMap(M) : JunctionMap(M, M_inv->second);
}

void Journal::put_value(const std::string& name, const Json& value) {
  put_about(name, {{"value", value}, {"sha256", hash_of(value)}});
}

Json Journal::value(const std::string& name) const {
  const fs::path file = path(name, kAbout);
  try {
    const Json about = read_about(file);
    if (about.at("sha256") != hash_of(about.at("value"))) refuse(file);
    return about.at("value");
  } catch (const Json::exception& error) {
    throw InputError(shown_path(file) + ": " + error.what());
  }
}

void Journal::put_diagnostics(const std::string& name, const MapDiagnostics& found) {
  Json object = {{"effective_rank", found.effective_rank},
                 {"retained_energy", found.retained_energy},
                 {"spectrum", found.spectrum},
                 {"sinkhorn_iterations", found.sinkhorn_iterations},
                 {"sinkhorn_violation", found.sinkhorn_violation},
                 {"sinkhorn_converged", found.sinkhorn_converged},
                 {"qr_condition", found.qr_condition}};
  if (found.transport) object["transport"] = to_json(*found.transport);
  put_value(name, object);
}

MapDiagnostics Journal::diagnostics(const std::string& name) const {
  const Json object = value(name);
  MapDiagnostics found;
  object.at("effective_rank").get_to(found.effective_rank);
  object.at("retained_energy").get_to(found.retained_energy);
  if (object.contains("spectrum")) object.at("spectrum").get_to(found.spectrum);
  object.at("sinkhorn_iterations").get_to(found.sinkhorn_iterations);
  object.at("sinkhorn_violation").get_to(found.sinkhorn_violation);
  object.at("sinkhorn_converged").get_to(found.sinkhorn_converged);
  object.at("qr_condition").get_to(found.qr_condition);
  if (object.contains("transport")) {
    found.transport =
        transport_picture_from_json(object.at("transport"), shown_path(path(name, kAbout)));
  }
  return found;
}

void JunctionRecorder::record(int64_t junction, SolvedJunction solved) {
  finish();
  // The conversion comes before the event: the writer's stream waits only for earlier work.
  const JunctionMap map = solved.solution.map.to(dtype_);
  const auto before = std::make_shared<RecordedEvent>(device_);
  const auto start = [&](const KeptStream& kept, auto step) {
    return std::async(std::launch::async, [&kept, before, step = std::move(step)]() mutable {
      const c10::InferenceMode no_autograd;
      const StreamGuard stream(kept, *before);
      return step();
    });
  };
  junction_ = junction;
  map_written_ = start(writing_, [this, junction, map, support = solved.solution.support] {
    journal_.put_map(junction, map, support);
  });
  described_ = start(describing_, [found = solved.solution.diagnostics,
                                   describe = std::move(solved.describe)]() mutable {
    describe(found);
    return found;
  });
  if (waits_) finish();
}

void JunctionRecorder::finish() {
  if (!described_.valid()) return;
  map_written_.get();
  journal_.put_diagnostics(entries::kJunction(junction_), described_.get());
}

}  // namespace dotresize
