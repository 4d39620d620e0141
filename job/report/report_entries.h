#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "job/model/dtype.h"
#include "job/model/model_config.h"
#include "job/report/transport_picture.h"

namespace dotresize {

/// What a report says of one junction.
struct JunctionReport {
  std::string name;    ///< "embed", "layers.3.attention", "layers.3.mlp"
  int64_t width = 0;   ///< k
  bool mapped = true;  ///< false: kept at full width, the rest is absent
  int64_t effective_rank = 0;
  double retained_energy = 0.0;  ///< tr(Mᵀ G M) / tr(G)
  /// How the eigenvalues of the Gram matrix hold its energy: (r, fraction that the r largest hold),
  /// of some r from 1 to d. Empty in reports of earlier versions.
  std::vector<std::pair<int64_t, double>> spectrum = {};
  // Methods with transport only:
  std::optional<int64_t> sinkhorn_iterations;
  std::optional<double> sinkhorn_violation;
  std::optional<bool> sinkhorn_converged;
  std::optional<double> qr_condition;  ///< 2-norm condition of R
  /// Of a map that others share, with the first of its junctions alone.
  std::optional<TransportPicture> transport = {};
  std::optional<Dtype> cost_dtype = {};  ///< of the differences in its costs: float32 or float16
  /// Of costs in float16, on a sample, if they were tried.
  std::optional<double> cost_error = {};
  /// Of the loss of a token, by what the map leaves out; if `method.allocate` has predicted it.
  std::optional<double> predicted_rise = {};
};

/// An entry of `junctions` in report.json; also how ranks tell rank 0 of theirs.
nlohmann::json to_json(const JunctionReport& junction);
/// Throws nlohmann::json::exception if `object` is no such entry, or InputError as
/// transport_picture_from_json.
JunctionReport junction_report_from_json(const nlohmann::json& object);

/// What a report says of one sublayer's skip path.
struct ShortcutReport {
  std::string name;             ///< of the sublayer
  std::optional<int64_t> rank;  ///< of what is added to the identity; absent: it is one matrix
  int64_t exact_rank = 0;       ///< with which nothing is left out
  int64_t parameters = 0;
  /// Of the loss of a token, by what is left out; of `method.allocate`.
  std::optional<double> predicted_rise = {};
};

/// Of the output's sublayers whose maps differ at both sides; none of a stock output.
std::vector<ShortcutReport> report_shortcuts(const ModelConfig& output);

/// An entry of `shortcuts` in report.json.
nlohmann::json to_json(const ShortcutReport& shortcut);
/// Throws nlohmann::json::exception if `object` is no such entry.
ShortcutReport shortcut_report_from_json(const nlohmann::json& object);

/// What a report says of one sublayer whose MLP, or whose experts, were cut.
struct MlpReport {
  std::string name;               ///< of the sublayer
  int64_t width = 0;              ///< features that are left
  int64_t intermediate_size = 0;  ///< of the source
  /// Of the loss of a token in the metric of the loss, else half the squared error.
  double predicted_rise = 0.0;
  int64_t unseen_experts = 0;  ///< that no calibration token has chosen
};

/// What a report says of one attention whose value heads may have become narrower.
struct AttentionReport {
  std::string name;             ///< of the sublayer
  int64_t value_head_dim = 0;   ///< channels of a value head that are left
  int64_t head_dim = 0;         ///< of the source
  double predicted_rise = 0.0;  ///< of the loss of a token
};

/// An entry of `attentions` in report.json.
nlohmann::json to_json(const AttentionReport& attention);
/// Throws nlohmann::json::exception if `object` is no such entry.
AttentionReport attention_report_from_json(const nlohmann::json& object);

/// An entry of `mlps` in report.json.
nlohmann::json to_json(const MlpReport& mlp);
/// Throws nlohmann::json::exception if `object` is no such entry.
MlpReport mlp_report_from_json(const nlohmann::json& object);

/// A decoder layer that was distilled, in a report.
struct HealedLayerReport {
  std::string name;           ///< "layers.3"
  double folded_error = 0.0;  ///< relative squared error of its output, on held-out windows
  double healed_error = 0.0;  ///< likewise; that of the folded weights if they were kept
  int64_t epochs = 0;         ///< after which the weights were taken; 0: the folded ones were kept
};

/// An entry of `heal.layers` in report.json; also how the journal has it.
nlohmann::json to_json(const HealedLayerReport& layer);
/// Throws nlohmann::json::exception if `object` is no such entry.
HealedLayerReport healed_layer_report_from_json(const nlohmann::json& object);

/// What `heal` has found of the output as a whole, in a report.
struct HealingReport {
  std::vector<HealedLayerReport> layers;
  /// KL from the dense model on the held-out windows, in nats a token: of the output with these
  /// layers, after each epoch of updates, and with the share of them that was taken.
  std::vector<double> held_out_kl;
  double update_share = 0.0;  ///< taken share of the updates; 0: they would have made it worse
};

/// Part of `heal` in report.json.
nlohmann::json to_json(const HealingReport& healing);
/// Throws nlohmann::json::exception if `object` is no such part.
HealingReport healing_report_from_json(const nlohmann::json& object);

/// The l1 costs that a rank has computed. A pair is two channels of one token: n tokens of width d
/// have n·d²/2.
struct CostReport {
  double pairs = 0.0;
  double seconds = 0.0;  ///< in the phase "cost"
  /// What the kernel cannot exceed on the rank's GPU; absent on the CPU, whose limit only a
  /// benchmark can tell (bench/l1_cost_benchmark.cpp).
  std::optional<double> limit_pairs_per_s = {};

  double pairs_per_s() const { return pairs / seconds; }
};

/// What a report says of one rank.
struct RankReport {
  int rank = 0;
  std::string host;
  int64_t first_sublayer = 0;
  int64_t end_sublayer = 0;
  std::map<std::string, double> seconds;  ///< wall time by phase
  int64_t peak_memory_bytes = 0;          ///< high-water mark of the resident set
  std::string gpu = {};                   ///< "NVIDIA H100 80GB HBM3 (sm_90)"; empty on the CPU
  std::optional<int64_t> peak_device_memory_bytes = {};     ///< CudaModule; on a GPU
  std::optional<int64_t> peak_device_allocated_bytes = {};  ///< likewise; not in older reports
  std::optional<CostReport> cost = {};                      ///< if the method has costs
};

/// An entry of `ranks` in report.json; also how ranks tell rank 0 of themselves.
nlohmann::json to_json(const RankReport& rank);
/// Throws nlohmann::json::exception if `object` is no such entry.
RankReport rank_report_from_json(const nlohmann::json& object);

}  // namespace dotresize
