#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/maps/junction_solver.h"
#include "worker/transformer/stream_guard.h"

namespace dotresize {

/// What a job has found so far, in files: a job that was interrupted goes on from there, and what
/// is here needs no memory. Every rank of the job reads and writes the same directory. An entry is
/// a file NAME.safetensors of tensors, if it has any, and then NAME.json with its hash: it appears
/// whole or not at all. Errors of the disk are std::system_errors that name the file.
class Journal {
 public:
  /// Removes what a run was writing when it ended.
  static void remove_unfinished(const std::filesystem::path& dir);

  /// `dir` exists. Entries that other ranks write later are not in entries().
  explicit Journal(std::filesystem::path dir);

  /// Names of the entries that were there at first, and of this rank's since.
  const std::set<std::string>& entries() const { return entries_; }
  bool has(const std::string& name) const { return entries_.contains(name); }
  void put(const std::string& name, const std::map<std::string, at::Tensor>& tensors);
  // The same in two steps, of which another thread may do the first: it returns the hash.
  std::string write(const std::string& name,
                    const std::map<std::string, at::Tensor>& tensors) const;
  void complete(const std::string& name, const std::string& sha256);
  /// Views of the mapped file, on the CPU; of any rank's entry. Throws InputError if it is no such
  /// file, std::runtime_error if it is not what its hash says: it was changed since the run began.
  std::map<std::string, at::Tensor> get(const std::string& name) const;
  /// The file of the entry's tensors. Throws std::runtime_error if it is not what its hash says.
  std::filesystem::path tensors_file(const std::string& name) const;
  void remove(const std::string& name);

  /// Those of the entries `part`, `part` + `parts`, ... of entries() whose file is not what its
  /// hash says.
  std::vector<std::string> damaged(int part, int parts) const;
  /// Removes these, and returns their names.
  std::vector<std::string> remove_damaged(int part, int parts);

  // Maps, each under its first junction, and the junctions that are finished.
  bool has_map(int64_t first_junction) const;
  /// In any floating dtype. Of a map that is not oblique M alone is kept.
  void put_map(int64_t first_junction, const JunctionMap& map, const at::Tensor& support);
  /// On the CPU.
  JunctionMap map(int64_t first_junction) const;
  /// The junction has its map and is described: the last that is written of it.
  void put_diagnostics(int64_t junction, const MapDiagnostics& diagnostics);
  bool has_diagnostics(int64_t junction) const;
  /// What all junctions of a shared map have in common.
  void put_shared_diagnostics(int64_t first_junction, const MapDiagnostics& diagnostics);
  bool has_shared_diagnostics(int64_t first_junction) const;
  MapDiagnostics shared_diagnostics(int64_t first_junction) const;
  /// Of any rank's junction. Throws InputError if there are none.
  MapDiagnostics diagnostics(int64_t junction) const;

  /// A small value of this name, as JSON; of any rank. Errors of value() as of get().
  void put_value(const std::string& name, const nlohmann::json& value);
  nlohmann::json value(const std::string& name) const;

 private:
  std::filesystem::path path(const std::string& name, const char* extension) const;
  void put_about(const std::string& name, const nlohmann::json& about);

  std::filesystem::path dir_;
  std::set<std::string> entries_;
};

/// Writes one entry in the background. An error of it is thrown by the next call.
class BackgroundEntry {
 public:
  /// `journal` outlives the object.
  explicit BackgroundEntry(Journal& journal) : journal_(journal) {}

  /// Waits for the one before. Tensors on the CPU.
  void put(const std::string& name, std::map<std::string, at::Tensor> tensors);
  void finish();

 private:
  Journal& journal_;
  std::string name_;
  std::future<std::string> hash_;
};

/// Puts solved junctions into the journal in the background while the next is solved: the map, and
/// with it what only the report wants to know.
class JunctionRecorder {
 public:
  /// References outlive the object. Maps are kept in `dtype`, that of folding.
  JunctionRecorder(Journal& journal, at::ScalarType dtype, at::Device device, bool waits)
      : journal_(journal),
        dtype_(dtype),
        device_(device),
        waits_(waits),
        writing_(device),
        describing_(device) {}
  /// Waits for the background, and throws nothing.
  ~JunctionRecorder() = default;

  /// Until finish() nobody else reads or writes the journal, but for get() of older entries.
  void record(int64_t junction, SolvedJunction solved);
  /// Until everything is in the journal. Throws what describing and writing threw.
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
