#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/plan/resolved_job.h"
#include "job/report/report_entries.h"
#include "worker/calibration/storage/journal.h"
#include "worker/comm/communicator.h"
#include "worker/commands/run/output/file_hashes.h"
#include "worker/commands/token_input.h"
#include "worker/kernels/svd.h"

namespace dotresize {

/// Returns the schedule of the maps in the journal of an interrupted run to this output; empty if
/// there is no journal. Throws InputError if the journal is damaged.
std::string journal_schedule(const std::filesystem::path& output);

/// Throws std::runtime_error if the file system of `dir` has less than `bytes` free.
void check_space(const std::filesystem::path& dir, int64_t bytes);

/// Gathers names of journal entries from all ranks on rank 0; nothing on the others. Collective.
std::vector<std::string> gather_names(Communicator& comm, const std::vector<std::string>& mine);

/// Removes a journal's damaged entries, with a note on stderr, so that they are computed again.
/// Ranks share the work. Collective.
void remove_damaged(Communicator& comm, const std::filesystem::path& dir);

/// Name of these windows in the journal's entries with the dense model's loss and final states
/// over them (entries::kDenseLoss, entries::kStates).
std::string name_of(const TokenWindows& evaluation);

/// A journal that belongs to this job.
struct OpenedJournal {
  Journal journal;
  std::set<int64_t> finished;  ///< junctions; the same on every rank
  // Values of the run that began the journal (MapOptions).
  int decomposition_threads = 0;
  SvdDriver svd_driver = SvdDriver::kGesvd;
};

/// Begins the journal in `dir` on rank 0, or checks that an existing one has this fingerprint.
/// Damaged entries are removed, with a note on stderr. `inputs`: files whose content the job
/// depends on; a file whose stamp differs from the earlier run's must have the hash that it had
/// then (changed_input). `shared_map`: see CalibrationJob. `decomposition_threads`: for a new
/// journal; 0: libtorch's number of threads. `svd_driver`: for a new journal, on rank 0. Throws
/// InputError naming the difference if the journal belongs to another job. Collective.
OpenedJournal open_journal(Communicator& comm, const std::filesystem::path& dir,
                           const nlohmann::json& fingerprint, const InputStamps& inputs,
                           int64_t mapped_junctions, bool shared_map, int decomposition_threads = 0,
                           std::optional<SvdDriver> svd_driver = {});

/// Returns all 2L+1 junctions in order from the journal, including those that keep their width.
/// `transport`: the maps are of a method with transport.
std::vector<JunctionReport> report_junctions(const Journal& journal, const JunctionWidths& widths,
                                             bool transport);

}  // namespace dotresize
