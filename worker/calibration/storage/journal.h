#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "worker/calibration/storage/entries.h"
#include "worker/maps/junction_solver.h"
#include "worker/transformer/stage/stream_guard.h"

namespace dotresize {

/// Intermediate results of a job, in files. An interrupted job resumes from them, and they need no
/// memory. All ranks of the job use the same directory. An entry has a file NAME.safetensors if it
/// holds tensors, and then NAME.json with its hash, so it appears whole or not at all. Disk errors
/// are std::system_errors that name the file.
class Journal {
 public:
  /// Removes unfinished files of an interrupted run.
  static void remove_unfinished(const std::filesystem::path& dir);

  /// `dir` must exist. entries() will not list entries that other ranks write later.
  explicit Journal(std::filesystem::path dir);

  /// Names of the entries found at construction, and of those written by this rank since.
  const std::set<std::string>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.contains(name); }
  void put(const std::string& name, const std::map<std::string, at::Tensor>& tensors);
  /// Returns views of the mapped file, on the CPU. The entry may be another rank's. Throws
  /// InputError if the file is missing or invalid, std::runtime_error if it does not match its
  /// hash: it was changed since the run began.
  std::map<std::string, at::Tensor> get(const std::string& name) const;
  /// Path of the entry's tensors. Throws std::runtime_error if the file does not match its hash.
  std::filesystem::path tensors_file(const std::string& name) const;
  void remove(const std::string& name);

  /// Checks the entries `part`, `part` + `parts`, ... of entries(), and returns the names of those
  /// that do not match their hash.
  std::vector<std::string> damaged(int part, int parts) const;

  // Maps are stored as entries::kMap, under their junction or kSharedMap.
  /// Accepts any floating dtype. M_inv is stored only for an oblique map.
  void put_map(int64_t number, const JunctionMap& map, const at::Tensor& support);
  /// Returns the map on the CPU.
  JunctionMap map(int64_t number) const;
  /// Diagnostics of a junction (entries::kJunction), the last entry that is written of it, or those
  /// that all junctions of a shared map have in common (entries::kShared). diagnostics() throws
  /// InputError if they are absent.
  void put_diagnostics(const std::string& name, const MapDiagnostics& diagnostics);
  MapDiagnostics diagnostics(const std::string& name) const;

  /// A small JSON value, written by any rank. value() throws the same errors as get().
  void put_value(const std::string& name, const nlohmann::json& value);
  nlohmann::json value(const std::string& name) const;

 private:
  friend class BackgroundEntry;

  std::filesystem::path path(const std::string& name, const char* extension) const;
  /// First step of put(), which may run in another thread. Returns the hash for put_about().
  std::string write(const std::string& name,
                    const std::map<std::string, at::Tensor>& tensors) const;
  void put_about(const std::string& name, const nlohmann::json& about);

  std::filesystem::path dir_;
  std::set<std::string> entries_;
};

/// Writes one entry at a time in the background. The next call rethrows its error.
class BackgroundEntry {
 public:
  /// `journal` outlives the object.
  explicit BackgroundEntry(Journal& journal) : journal_(journal) {}

  /// Waits for the previous entry. The tensors must be on the CPU.
  void put(const std::string& name, std::map<std::string, at::Tensor> tensors);
  void finish();

 private:
  Journal& journal_;
  std::string name_;
  std::future<std::string> hash_;
};

/// Writes solved junctions to the journal in the background while the next one is solved: the map,
/// and beside it the diagnostics that only the report needs.
class JunctionRecorder {
 public:
  /// References outlive the object. `dtype`: dtype of the stored maps, the fold dtype.
  JunctionRecorder(Journal& journal, at::ScalarType dtype, at::Device device, bool waits)
      : journal_(journal),
        dtype_(dtype),
        device_(device),
        waits_(waits),
        writing_(device),
        describing_(device) {}
  /// Waits for the background work. Discards its errors.
  ~JunctionRecorder() = default;

  /// Starts to write the junction. Until finish() the caller must not use the journal, except get()
  /// of older entries.
  void record(int64_t junction, SolvedJunction solved);
  /// Waits until everything is in the journal. Rethrows errors of describing and writing.
  void finish();

 private:
  Journal& journal_;
  at::ScalarType dtype_;
  at::Device device_;
  bool waits_;
  KeptStream writing_;
  KeptStream describing_;
  int64_t junction_ = 0;
  std::future<void> map_written_;
  std::future<MapDiagnostics> described_;
};

}  // namespace dotresize
