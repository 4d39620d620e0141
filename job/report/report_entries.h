#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/model/model_config.h"
#include "job/model/units/unit.h"
#include "job/report/transport_picture.h"

namespace dotresize {

/// Converts to the entry `transport` of a junction in report.json (docs/output.md).
nlohmann::json to_json(const TransportPicture& picture);
/// Throws InputError "ORIGIN: transport.KEY: what is wrong" if `object` is not a transport entry.
TransportPicture transport_picture_from_json(const nlohmann::json& object,
                                             const std::string& origin);

/// Report entry of one junction.
struct JunctionReport {
  std::string name;    ///< "embed", "layers.3.attention", "layers.3.mlp"
  int64_t width = 0;   ///< k
  bool mapped = true;  ///< false: the junction keeps its full width, and the rest is absent
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  /// Energy spectrum of the Gram matrix: pairs of r and the fraction of the energy in the r largest
  /// eigenvalues, for some r from 1 to d. Empty in reports of earlier versions.
  std::vector<std::pair<int64_t, double>> spectrum = {};
  // Set only for methods with transport:
  std::optional<int64_t> sinkhorn_iterations;
  std::optional<double> sinkhorn_violation;
  std::optional<bool> sinkhorn_converged;
  std::optional<double> qr_condition;  ///< 2-norm condition of R
  /// Picture of the transport plan. If junctions share a map, only the first one has it.
  std::optional<TransportPicture> transport = {};
  /// Predicted loss increase per token; only in reports of earlier versions.
  std::optional<double> predicted_loss_increase = {};
};

/// Converts to an entry of `junctions` in report.json; ranks send the same form to rank 0.
nlohmann::json to_json(const JunctionReport& junction);
/// Throws nlohmann::json::exception if `object` is not a junction entry, InputError for a malformed
/// spectrum, and the errors of transport_picture_from_json.
JunctionReport junction_report_from_json(const nlohmann::json& object);

/// Report entry of one sublayer's skip path.
struct ShortcutReport {
  std::string name;             ///< name of the sublayer
  std::optional<int64_t> rank;  ///< rank of the matrix added to the identity; absent: one matrix
  int64_t exact_rank = 0;       ///< rank with which nothing is left out
  int64_t parameters = 0;
  /// Predicted loss increase per token; only in reports of earlier versions.
  std::optional<double> predicted_loss_increase = {};
};

/// Entries of the sublayers whose maps differ at both sides; empty for a stock output.
std::vector<ShortcutReport> report_shortcuts(const ModelConfig& output);

/// Converts to an entry of `shortcuts` in report.json.
nlohmann::json to_json(const ShortcutReport& shortcut);
/// Throws nlohmann::json::exception if `object` is not a shortcut entry.
ShortcutReport shortcut_report_from_json(const nlohmann::json& object);

/// Report entry of one sublayer that may have been cut.
struct CutReport {
  /// Parts of a unit in the sublayer.
  struct Size {
    const Unit* unit = nullptr;
    int64_t left = 0;
    int64_t source = 0;
  };
  std::string name;         ///< name of the sublayer
  std::vector<Size> sizes;  ///< main_unit(), then others that the source has
  /// Predicted loss increase per token in the metric of the loss, else half the squared error.
  double predicted_loss_increase = 0.0;
  int64_t unseen_experts = 0;  ///< experts whose features were cut without any token of theirs

  bool of_attention() const { return sizes.front().unit->of_attentions; }
};

/// Returns the sizes of a unit, in the order of the sublayers that may have been cut; 0 in a
/// sublayer of its kind that lacks it. Empty: no sublayer has it.
std::vector<int64_t> sizes_left(const std::vector<CutReport>& cuts, const Unit& unit);

/// Converts to an entry of `mlps` or of `attentions` in report.json.
nlohmann::json to_json(const CutReport& cut);
/// Throws nlohmann::json::exception if `object` is not an entry of `attentions`, or of `mlps`.
CutReport cut_report_from_json(const nlohmann::json& object, bool of_attention);

/// Report entry of one distilled decoder layer.
struct HealedLayerReport {
  std::string name;           ///< "layers.3"
  double folded_error = 0.0;  ///< relative squared error of its output, on held-out windows
  double healed_error = 0.0;  ///< same; equals folded_error if the folded weights were kept
  int64_t epochs = 0;         ///< epochs of the weights that were taken; 0: the folded weights
};

/// The entry of `heal.layers` in report.json; the journal has the same form.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HealedLayerReport, name, folded_error, healed_error, epochs)

/// Report entry of `heal`.
struct HealingReport {
  std::vector<HealedLayerReport> layers;
  /// KL from the dense model on the held-out windows, in nats per token: with the healed layers,
  /// after each epoch of updates, and with the share of the updates that was taken.
  std::vector<double> held_out_kl;
  double update_share = 0.0;  ///< share that was taken; 0: no share lowered the held-out loss
};

/// A part of `heal` in report.json.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HealingReport, layers, held_out_kl, update_share)

/// l1 costs that a rank has computed. A pair is two channels of one token: n tokens of width d have
/// n·d²/2 pairs.
struct CostReport {
  double pairs = 0.0;
  double seconds = 0.0;  ///< time in the phase "cost"
  /// Upper limit of the kernel's rate on the rank's GPU. Absent on the CPU, where only a benchmark
  /// can tell (bench/l1_cost_benchmark.cpp).
  std::optional<double> limit_pairs_per_s = {};
};

/// Report entry of one rank.
struct RankReport {
  int rank = 0;
  std::string host;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  std::map<std::string, double> seconds;  ///< wall time by phase
  int64_t peak_memory_bytes = 0;          ///< high-water mark of the resident set
  std::string gpu = {};                   ///< "NVIDIA H100 80GB HBM3 (sm_90)"; empty on the CPU
  std::optional<int64_t> peak_device_memory_bytes = {};     ///< CudaModule; absent on the CPU
  std::optional<int64_t> peak_device_allocated_bytes = {};  ///< same; also absent in older reports
  std::optional<CostReport> cost = {};                      ///< absent if the method has no costs
};

/// Converts to an entry of `ranks` in report.json; ranks send the same form to rank 0.
nlohmann::json to_json(const RankReport& rank);
/// Throws nlohmann::json::exception if `object` is not a rank entry.
RankReport rank_report_from_json(const nlohmann::json& object);

}  // namespace dotresize
