#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "job/model/model_config.h"
#include "job/plan/resolved_job.h"
#include "job/report/report_entries.h"
#include "worker/calibration/journal.h"
#include "worker/comm/communicator.h"
#include "worker/commands/token_input.h"
#include "worker/kernels/svd.h"

namespace dotresize {

/// The schedule whose maps are in the journal of an interrupted run to this output; empty if there
/// is none. Throws InputError if the journal is damaged.
std::string journal_schedule(const std::filesystem::path& output);

/// Throws std::runtime_error if the file system of `dir` has fewer bytes free.
void check_space(const std::filesystem::path& dir, int64_t bytes);

/// The names of journal entries that the ranks have, on rank 0; nothing on the others. Collective.
std::vector<std::string> gather_names(Communicator& comm, const std::vector<std::string>& mine);

/// Removes the damaged entries of a journal, with a note on stderr: they are computed again. Ranks
/// share the work. Collective.
void remove_damaged(Communicator& comm, const std::filesystem::path& dir);

/// Where a run keeps the hash of an input once it has it, beside the entries.
std::filesystem::path input_hash_file(const std::filesystem::path& journal,
                                      const std::string& input);

/// The journal's entry for the dense model's loss over these windows.
std::string dense_loss_entry(const TokenWindows& evaluation);

/// How the names of its entries for the dense model's final states over them begin.
std::string dense_states_entry(const TokenWindows& evaluation);

/// A journal that is this job's.
struct OpenedJournal {
  Journal journal;
  std::set<int64_t> finished;  ///< junctions, as every rank sees them
  // As in the run that began it (MapOptions):
  int decomposition_threads = 0;
  SvdDriver svd_driver = SvdDriver::kGesvd;
};

/// Rank 0 begins the journal in `dir`, or checks that the one there has this fingerprint; damaged
/// entries are removed, with a note on stderr. `sharing`: CalibrationJob. `decomposition_threads`:
/// of a journal that is begun; 0: as many as libtorch has. `svd_driver`: likewise, rank 0's.
/// `inputs`: the files whose content the job depends on; one whose stamp is not that of the earlier
/// run must have the hash that it had then. Collective. Throws InputError naming what differs in a
/// journal of another job.
OpenedJournal open_journal(Communicator& comm, const std::filesystem::path& dir,
                           const nlohmann::json& fingerprint,
                           const std::vector<std::filesystem::path>& inputs,
                           int64_t mapped_junctions, const std::vector<int64_t>& sharing,
                           int decomposition_threads = 0, std::optional<SvdDriver> svd_driver = {});

/// All 2L+1 junctions in order, those that keep their width included, from the journal.
/// `transport`: the maps are of a method with transport.
std::vector<JunctionReport> report_junctions(const Journal& journal, const JunctionWidths& widths,
                                             bool transport);

}  // namespace dotresize
