#include "job/checkpoint/model_description.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "job/checkpoint/checkpoint_files.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/checkpoint/source_model.h"
#include "job/model/output_config.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/model/units/unit.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kConfigFile[] = "config.json";

json stamp_json(const FileStamp& stamp) {
  return {{"inode", stamp.inode},
          {"bytes", stamp.bytes},
          {"modified_ns", stamp.modified_ns},
          {"changed_ns", stamp.changed_ns}};
}

std::vector<std::string> companions_in(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const char* name : kCompanionFiles) {
    if (fs::exists(dir / name, error)) names.emplace_back(name);
  }
  return names;
}

/// Stamps of all files of a description. Taken before the files are read, so that a later change
/// shows.
json stamps_of(const fs::path& dir, const CheckpointFiles& files,
               const std::vector<std::string>& companions) {
  std::vector<std::string> names = files.names;
  names.emplace_back(kConfigFile);
  if (!files.index.empty()) names.emplace_back(kIndexFile);
  names.insert(names.end(), companions.begin(), companions.end());
  json stamps = json::object();
  for (const std::string& name : names) {
    stamps[name] = stamp_json(InputFile((dir / name).string()).stamp());
  }
  return stamps;
}

json rotary_json(const RotaryConfig& rotary) {
  return {{"type", rotary.type},
          {"theta", rotary.theta},
          {"partial_factor", rotary.partial_factor},
          {"channels", rotary.channels},
          {"interleaved", rotary.interleaved},
          {"factor", rotary.factor},
          {"alpha", rotary.alpha},
          {"original_max_position_embeddings", rotary.original_max_position_embeddings},
          {"attention_factor", rotary.attention_factor},
          {"low_freq_factor", rotary.low_freq_factor},
          {"high_freq_factor", rotary.high_freq_factor},
          {"beta_fast", rotary.beta_fast},
          {"beta_slow", rotary.beta_slow},
          {"truncate", rotary.truncate},
          {"query_beta", rotary.query_beta.value_or(0.0)}};
}

template <class Number>
json number_or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json();
}

double scale_of_scores(const AttentionSpec& attention) {
  return attention.scale.value_or(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
}

/// Description of the mixtures, which have the same form in all layers that have one.
json mixture_json(const ModelConfig& config) {
  json value;
  std::vector<bool> layers;
  for (const LayerSpec& layer : config.layers) {
    layers.push_back(layer.mlp.mixture.has_value());
    if (!layer.mlp.mixture) continue;
    const MixtureSpec& mixture = *layer.mlp.mixture;
    value = {{"experts", mixture.experts},
             {"experts_per_token", mixture.experts_per_token},
             {"normed_weights", mixture.normed_weights},
             {"features", layer.mlp.intermediate_size},
             {"shared_features", shared_features(layer.mlp)},
             {"weight_scale", mixture.weight_scale},
             {"groups", mixture.groups},
             {"groups_per_token", mixture.groups_per_token}};
  }
  if (!value.is_null()) value["layers"] = layers;
  return value;
}

json limited_json(const MlpSpec& mlp) {
  if (!mlp.limited) return {};
  return {{"limit", mlp.limited->limit}, {"sharpness", mlp.limited->sharpness}};
}

/// Description of the DeltaNets, which have the same form in all layers that have one.
json delta_net_json(const ModelConfig& config) {
  json value;
  std::vector<bool> layers;
  for (const LayerSpec& layer : config.layers) {
    const auto& net = layer.attention.delta_net;
    layers.push_back(net.has_value());
    if (!net) continue;
    value = {{"key_heads", net->key_heads},
             {"value_heads", net->value_heads},
             {"key_dim", net->key_dim},
             {"value_dim", net->value_dim},
             {"taps", net->taps}};
  }
  if (!value.is_null()) value["layers"] = layers;
  return value;
}

json config_json(const ModelConfig& config) {
  const AttentionSpec& attention = config.layers.front().attention;
  json value = {{"family", config.family},
                {"compressed", config.compressed},
                {"hidden_size", config.hidden_size},
                {"num_hidden_layers", config.num_layers()},
                {"vocab_size", config.vocab_size},
                {"max_position_embeddings", config.max_position_embeddings},
                {"rms_norm_eps", config.rms_norm_eps},
                {"num_attention_heads", attention.num_heads},
                {"num_key_value_heads", attention.num_kv_heads},
                {"head_dim", attention.head_dim},
                {"attention_bias", attention.bias},
                {"attention_scale", scale_of_scores(attention)},
                {"head_norms", attention.head_norms.has_value()},
                {"score_cap", number_or_null(attention.score_cap)},
                {"logit_cap", number_or_null(config.logit_cap)},
                {"norm_offset", config.norm_offset},
                {"embedding_scale", config.embedding_scale},
                {"logit_scale", config.logit_scale},
                {"residual_scale", config.layers.front().residual_scale},
                {"mixture", mixture_json(config)},
                {"limited", limited_json(config.layers.front().mlp)},
                {"delta_net", delta_net_json(config)},
                {"tie_word_embeddings", config.tie_word_embeddings},
                {"junction_widths", config.form.junction_widths},
                {"norm_weights", config.form.norm_weights || !config.compressed}};
  for (const LayerSpec& layer : config.layers) {
    const std::optional<int64_t>& window = layer.attention.sliding_window;
    for (const Unit* unit : kUnits) value[unit->key].push_back(unit->size(layer));
    value["sliding_windows"].push_back(number_or_null(window));
    const auto& rotary = layer.attention.rotary;
    value["rotaries"].push_back(rotary ? rotary_json(config.rotaries[*rotary]) : json());
  }
  return value;
}

/// One entry for each tensor of the config. Others that the files may have are left out.
json tensors_json(const ModelConfig& config, const CheckpointTable& table) {
  json tensors = json::object();
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    for (const StoredTensor& tensor : shard_tensors(config, sublayer, sublayer + 1)) {
      const TensorPlace& place = table.tensors.at(tensor.name);
      tensors[tensor.name] = {{"file", place.file},   {"dtype", place.dtype},
                              {"shape", place.shape}, {"transposed", place.transposed},
                              {"begin", place.begin}, {"end", place.end}};
      if (tensor.slice) tensors[tensor.name]["whole"] = tensor.slice->whole;
    }
  }
  return tensors;
}

json settings_json(const fs::path& dir, const ModelConfig& config) {
  ModelConfig stock = config;
  stock.compressed = false;
  return json::parse(
      output_config_json(read_whole_file(dir / kConfigFile, kMaxConfigBytes), stock));
}

}  // namespace

ModelDescription describe_model(const fs::path& dir, const DescriptionRefusals& refusals) {
  const CheckpointFiles files = find_checkpoint_files(dir);
  const std::vector<std::string> companions = companions_in(dir);
  const json stamps = stamps_of(dir, files, companions);
  check_companions(dir);
  SourceModel model = read_model_with_weights(dir);
  if (const auto& wrapper = model.config.files.wrapper) {
    throw InputError(dir.string() + ": is the text part of a " + wrapper->model_type + ", " +
                     refusals.wrapper);
  }
  if (const auto& quantisation = model.config.files.quantisation) {
    throw InputError(dir.string() + ": its weights are quantised (" + quantisation->name + "), " +
                     refusals.quantised);
  }
  if (model.files.names != files.names) {
    throw InputError(dir.string() + ": was changed while it was read; run the command again");
  }
  const json document = {{"name", fs::canonical(dir).filename().string()},
                         {"config", config_json(model.config)},
                         {"settings", settings_json(dir, model.config)},
                         {"tensors", tensors_json(model.config, *model.table)},
                         {"companions", companions},
                         {"files", stamps}};
  return {document.dump(-1, ' ', false, json::error_handler_t::replace), std::move(model.warnings)};
}

}  // namespace dotresize
