#include "job/model/tensor_table.h"

#include <algorithm>
#include <numeric>

#include "base/process/work_budget.h"

namespace dotresize {
namespace {

constexpr Extent kIn{Extent::Kind::kIn};
constexpr Extent kOut{Extent::Kind::kOut};

constexpr Extent constant(int64_t size) { return {Extent::Kind::kConstant, size}; }

/// A matrix between a junction and the inside of the sublayer.
struct Projection {
  std::string_view module;
  int64_t size = 0;  ///< size on the inner side: rows of in_proj, columns of out_proj
  bool per_expert = false;
  std::string_view block = {};  ///< empty: that of the sublayer
};

struct Projections {
  std::string_view block;
  std::vector<Projection> in_proj;
  std::vector<Projection> out_proj;
  bool in_bias = false;
  bool out_bias = false;
};

/// Stacks the rows of the projections into one matrix `module`.
std::vector<Projection> fused(std::string_view module, const std::vector<Projection>& projections) {
  const int64_t rows =
      std::accumulate(projections.begin(), projections.end(), int64_t{0},
                      [](int64_t sum, const Projection& part) { return sum + part.size; });
  return {{module, rows}};
}

Projections projections_of(const DeltaNetSpec& net) {
  return {.block = "linear_attn",
          .in_proj = {{"in_proj_qkv", net.mixed()},
                      {"in_proj_z", net.values()},
                      {"in_proj_b", net.value_heads},
                      {"in_proj_a", net.value_heads}},
          .out_proj = {{"out_proj", net.values()}}};
}

Projections projections_of(const AttentionSpec& attention) {
  if (attention.delta_net) return projections_of(*attention.delta_net);
  const std::vector<Projection> in_proj = {
      {"q_proj", attention.num_heads * attention.head_dim * (attention.gated ? 2 : 1)},
      {"k_proj", attention.num_kv_heads * attention.head_dim},
      {"v_proj", attention.num_kv_heads * attention.value_head_dim}};
  return {.block = "self_attn",
          .in_proj = attention.fused ? fused("qkv_proj", in_proj) : in_proj,
          .out_proj = {{"o_proj", attention.num_heads * attention.value_head_dim}},
          .in_bias = attention.bias,
          .out_bias = attention.output_bias};
}

Projections projections_of_mixture(const MlpSpec& mlp) {
  const int64_t rows = mlp.intermediate_size;
  const MixtureNames& names = mlp.mixture->names;
  Projections mixture = {.block = names.block,
                         .in_proj = {{names.router, mlp.mixture->experts}},
                         .out_proj = {{names.down, rows, /*per_expert=*/true}},
                         .in_bias = mlp.bias,
                         .out_bias = mlp.bias};
  mixture.in_proj.push_back({names.gate, mlp.fused ? 2 * rows : rows, /*per_expert=*/true});
  if (!mlp.fused) mixture.in_proj.push_back({names.up, rows, /*per_expert=*/true});
  if (const int64_t shared = shared_features(mlp); shared > 0) {
    mixture.in_proj.push_back({names.gate, shared, false, names.shared});
    mixture.in_proj.push_back({names.up, shared, false, names.shared});
    if (!names.shared_gate.empty()) mixture.in_proj.push_back({names.shared_gate, 1});
    mixture.out_proj.push_back({names.down, shared, false, names.shared});
  }
  return mixture;
}

Projections projections_of(const MlpSpec& mlp) {
  if (mlp.mixture) return projections_of_mixture(mlp);
  const int64_t rows = mlp.intermediate_size;
  const std::vector<Projection> in_proj = {{"gate_proj", rows}, {"up_proj", rows}};
  return {.block = "mlp",
          .in_proj = mlp.fused ? fused("gate_up_proj", in_proj) : in_proj,
          .out_proj = {{"down_proj", rows}},
          .in_bias = mlp.bias,
          .out_bias = mlp.bias};
}

/// Parameter name of a tensor in its module.
std::string_view parameter_name(TensorRole role) {
  switch (role) {
    case TensorRole::kInProjBias:
    case TensorRole::kOutProjBias:
      return "bias";
    case TensorRole::kChoiceBias:
      return "e_score_correction_bias";
    case TensorRole::kShortcutA:
      return "A";
    case TensorRole::kShortcutB:
      return "B";
    default:
      return "weight";
  }
}

/// Name of the row's tensor, or of its tensor of one expert.
std::string tensor_name(const TensorRow& row, const std::string& prefix, int64_t expert) {
  std::string name = prefix + std::string(row.block) + (row.block.empty() ? "" : ".");
  if (row.per_expert) name += "experts." + std::to_string(expert) + ".";
  name += std::string(row.module) + (row.module.empty() ? "" : ".");
  return name + std::string(row.parameter.empty() ? parameter_name(row.role) : row.parameter);
}

/// Returns the place of the row's tensor of one expert in that of all; nullopt if files have one of
/// each.
std::optional<TensorSlice> slice_of(const TensorRow& row, const std::string& prefix, int64_t expert,
                                    int64_t experts) {
  if (!row.stacked) return std::nullopt;
  const std::string name = prefix + std::string(row.block) + ".experts." + std::string(row.module);
  return TensorSlice{
      .whole = row.columns ? name : name + "_bias", .index = expert, .count = experts};
}

/// Expands rows to tensors with names and sizes. Rows of experts are repeated expert by expert;
/// neighbours of the same role stay together. `prefix`: empty, or begins the names and ends with a
/// dot.
std::vector<StoredTensor> expanded(const std::vector<TensorRow>& rows, const std::string& prefix,
                                   int64_t k_in, int64_t k_out, int64_t experts) {
  std::vector<StoredTensor> tensors;
  const auto add = [&](const TensorRow& row, int64_t expert) {
    std::vector<int64_t> shape = {size_of(row.rows, k_in, k_out)};
    if (row.convolution) shape.push_back(1);
    if (row.columns) shape.push_back(size_of(*row.columns, k_in, k_out));
    const bool follows = !tensors.empty() && tensors.back().role == row.role;
    tensors.push_back({tensor_name(row, prefix, expert), std::move(shape), row.role,
                       follows ? tensors.back().index + 1 : 0,
                       slice_of(row, prefix, expert, experts)});
  };
  for (auto row = rows.begin(); row != rows.end();) {
    const auto end = std::find_if(row, rows.end(), [&](const TensorRow& other) {
      return other.role != row->role || other.per_expert != row->per_expert;
    });
    for (int64_t expert = 0; expert < (row->per_expert ? experts : 1); ++expert) {
      for (auto one = row; one != end; ++one) add(*one, expert);
    }
    row = end;
  }
  return tensors;
}

void add_head_norm_rows(const AttentionSpec& attention, std::string_view block,
                        std::vector<TensorRow>& rows) {
  if (!attention.head_norms) return;
  const HeadNorms& norms = *attention.head_norms;
  const auto add = [&](std::string_view module, int64_t heads) {
    const Extent channels = constant(attention.head_dim * (norms.over_all_heads ? heads : 1));
    rows.push_back({TensorRole::kHeadNorm, block, module, channels, {}});
  };
  add(norms.query, attention.num_heads);
  add(norms.key, attention.num_kv_heads);
}

void add_sinks_row(const AttentionSpec& attention, std::string_view block,
                   std::vector<TensorRow>& rows) {
  if (!attention.sinks) return;
  rows.push_back({.role = TensorRole::kSinks,
                  .block = block,
                  .module = {},
                  .rows = constant(attention.num_heads),
                  .columns = {},
                  .parameter = "sinks"});
}

/// Adds weights, then biases, of the sublayer's projections.
void add_projection_rows(const Projections& parts, bool stacked, std::vector<TensorRow>& rows) {
  const auto add = [&](TensorRole role, const Projection& part, const Extent& out,
                       const std::optional<Extent>& in) {
    rows.push_back({.role = role,
                    .block = part.block.empty() ? parts.block : part.block,
                    .module = part.module,
                    .rows = out,
                    .columns = in,
                    .per_expert = part.per_expert,
                    .stacked = part.per_expert && stacked});
  };
  for (const Projection& in : parts.in_proj) {
    add(TensorRole::kInProjWeight, in, constant(in.size), kIn);
  }
  for (const Projection& out : parts.out_proj) {
    add(TensorRole::kOutProjWeight, out, kOut, constant(out.size));
  }
  if (parts.in_bias) {
    for (const Projection& in : parts.in_proj) {
      add(TensorRole::kInProjBias, in, constant(in.size), {});
    }
  }
  if (parts.out_bias) {
    for (const Projection& out : parts.out_proj) add(TensorRole::kOutProjBias, out, kOut, {});
  }
}

void add_delta_net_rows(const AttentionSpec& attention, std::string_view block,
                        std::vector<TensorRow>& rows) {
  if (!attention.delta_net) return;
  const DeltaNetSpec& net = *attention.delta_net;
  constexpr TensorRole kRole = TensorRole::kDeltaNet;
  rows.push_back({.role = kRole,
                  .block = block,
                  .module = "conv1d",
                  .rows = constant(net.mixed()),
                  .columns = constant(net.taps),
                  .convolution = true});
  for (const char* parameter : {"dt_bias", "A_log"}) {
    rows.push_back({.role = kRole,
                    .block = block,
                    .module = {},
                    .rows = constant(net.value_heads),
                    .columns = {},
                    .parameter = parameter});
  }
  rows.push_back({kRole, block, "norm", constant(net.value_dim), {}});
}

void add_shortcut_rows(const ShortcutForm& form, std::string_view module,
                       std::vector<TensorRow>& rows) {
  if (form.dense()) return rows.push_back({TensorRole::kShortcut, "", module, kOut, kIn});
  if (*form.rank == 0) return;
  rows.push_back({TensorRole::kShortcutA, "", module, constant(*form.rank), kIn});
  if (form.factors == 2) {
    rows.push_back({TensorRole::kShortcutB, "", module, kOut, constant(*form.rank)});
  }
}

}  // namespace

int64_t size_of(const Extent& extent, int64_t k_in, int64_t k_out) {
  switch (extent.kind) {
    case Extent::Kind::kIn:
      return k_in;
    case Extent::Kind::kOut:
      return k_out;
    case Extent::Kind::kConstant:
      break;
  }
  return extent.constant;
}

std::vector<TensorRow> sublayer_rows(const ModelConfig& config, int64_t sublayer,
                                     SublayerForm form) {
  WorkBudget::check();
  const std::string_view shortcut = is_attention(sublayer) ? "attention_shortcut" : "mlp_shortcut";
  std::vector<TensorRow> rows;
  if (is_skipped(config, sublayer)) {
    add_shortcut_rows(form.shortcut, shortcut, rows);
    return rows;
  }
  const bool attends = is_attention(sublayer);
  const Projections parts =
      attends ? projections_of(config.attention(sublayer)) : projections_of(config.mlp(sublayer));
  const std::string_view block = parts.block;
  rows.reserve(2 * parts.in_proj.size() + 6);  // space for biases, norms and shortcut factors
  if (config.is_mixture(sublayer)) {
    const MixtureSpec& mixture = *config.mlp(sublayer).mixture;
    add_projection_rows(parts, mixture.names.stacked, rows);
    if (mixture.choice_bias) {
      rows.push_back(
          {TensorRole::kChoiceBias, block, mixture.names.router, constant(mixture.experts), {}});
    }
  } else {
    add_projection_rows(parts, /*stacked=*/false, rows);
  }
  if (attends) {
    add_head_norm_rows(config.attention(sublayer), block, rows);
    add_sinks_row(config.attention(sublayer), block, rows);
    add_delta_net_rows(config.attention(sublayer), block, rows);
  }
  const std::string_view before = config.norm_before(sublayer);
  const std::string_view behind = config.norm_behind(sublayer);
  if (form.norm && !before.empty()) rows.push_back({TensorRole::kNorm, "", before, kIn, {}});
  if (!behind.empty()) rows.push_back({TensorRole::kPostNorm, "", behind, kOut, {}});
  add_shortcut_rows(form.shortcut, shortcut, rows);
  return rows;
}

std::vector<TensorRow> embedding_rows(const ModelConfig& config) {
  const Extent width = constant(config.embedding_width());
  std::vector<TensorRow> rows = {
      {TensorRole::kEmbedding, "model", "embed_tokens", constant(config.vocab_size), width}};
  if (config.form.embedding_projection) {
    rows.push_back(
        {TensorRole::kEmbeddingProjection, "model", "embedding_projection", kOut, width});
  }
  return rows;
}

std::vector<TensorRow> head_rows(const ModelConfig& config) {
  const Extent width = config.form.head_projection ? constant(config.embedding_width()) : kIn;
  std::vector<TensorRow> rows;
  if (config.has_final_norm()) rows.push_back({TensorRole::kFinalNorm, "model", "norm", kIn, {}});
  if (config.form.head_projection) {
    rows.push_back({TensorRole::kHeadProjection, "model", "head_projection", width, kIn});
  }
  rows.push_back({TensorRole::kHead, "", "lm_head", constant(config.vocab_size), width});
  return rows;
}

SublayerForm stored_form(const ModelConfig& config, int64_t sublayer) {
  if (!config.compressed) return SublayerForm::kDense;
  return {.norm = config.form.norm_weights, .shortcut = config.shortcut(sublayer)};
}

TensorsSize total_size(const std::vector<TensorRow>& rows, const std::string& prefix, int64_t k_in,
                       int64_t k_out, int64_t experts, const StoredDtypes& dtypes) {
  const bool differ = dtypes.differ_within(prefix);
  TensorsSize total;
  for (const TensorRow& row : rows) {
    const int64_t elements =
        size_of(row.rows, k_in, k_out) * (row.columns ? size_of(*row.columns, k_in, k_out) : 1);
    const int64_t count = row.per_expert ? experts : 1;
    total.parameters += count * elements;
    total.bytes += count * elements * size_in_bytes(dtypes.main);
    // There may be thousands of experts, so their names are made only if needed.
    const auto experts_prefix = [&] { return prefix + std::string(row.block) + ".experts."; };
    if (!differ || (row.per_expert && !dtypes.differ_within(experts_prefix()))) continue;
    for (int64_t expert = 0; expert < count; ++expert) {
      const Dtype dtype = dtypes.of(tensor_name(row, prefix, expert));
      total.bytes += elements * (size_in_bytes(dtype) - size_in_bytes(dtypes.main));
    }
  }
  return total;
}

std::string name_prefix(int64_t sublayer) {
  return "model.layers." + std::to_string(layer_of(sublayer)) + ".";
}

std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer,
                                           SublayerForm form, int64_t k_in, int64_t k_out) {
  return expanded(sublayer_rows(config, sublayer, form), name_prefix(sublayer), k_in, k_out,
                  mlp_count(config, sublayer));
}

std::vector<StoredTensor> sublayer_tensors(const ModelConfig& config, int64_t sublayer) {
  return sublayer_tensors(config, sublayer, stored_form(config, sublayer),
                          config.form.junction_widths.at(sublayer),
                          config.form.junction_widths.at(sublayer + 1));
}

StoredTensor embedding_tensor(const ModelConfig& config) {
  return embedding_tensors(config).front();
}

std::vector<StoredTensor> embedding_tensors(const ModelConfig& config) {
  return expanded(embedding_rows(config), "", 0, config.form.junction_widths.front(), 0);
}

std::vector<StoredTensor> head_tensors(const ModelConfig& config) {
  return expanded(head_rows(config), "", config.form.junction_widths.back(), 0, 0);
}

std::vector<int64_t> StoredTensor::shape_in_files() const {
  if (!slice) return shape;
  std::vector<int64_t> whole = shape;
  std::ranges::reverse(whole);
  whole.insert(whole.begin(), slice->count);
  return whole;
}

bool is_in_proj(const StoredTensor& stored) {
  return stored.role == TensorRole::kInProjWeight || stored.role == TensorRole::kInProjBias;
}

StoredTensor head_matrix(const ModelConfig& config) {
  return config.tie_word_embeddings ? embedding_tensor(config) : head_tensors(config).back();
}

std::optional<StoredTensor> end_tensor(const ModelConfig& config, TensorRole role) {
  for (const auto& tensors : {embedding_tensors(config), head_tensors(config)}) {
    const auto found = std::ranges::find(tensors, role, &StoredTensor::role);
    if (found != tensors.end()) return *found;
  }
  return std::nullopt;
}

std::vector<StoredTensor> shard_tensors(const ModelConfig& config, int64_t first, int64_t end) {
  std::vector<StoredTensor> tensors;
  if (first == 0) tensors = embedding_tensors(config);
  for (int64_t sublayer = first; sublayer < end; ++sublayer) {
    for (StoredTensor& tensor : sublayer_tensors(config, sublayer)) {
      tensors.push_back(std::move(tensor));
    }
  }
  if (end < config.num_sublayers()) return tensors;
  for (StoredTensor& tensor : head_tensors(config)) {
    const bool tied = tensor.role == TensorRole::kHead && config.tie_word_embeddings;
    if (!tied) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::map<std::string, std::vector<int64_t>> expected_shapes(const ModelConfig& config) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const StoredTensor& tensor : shard_tensors(config, 0, config.num_sublayers())) {
    shapes.emplace(tensor.name_in_files(), tensor.shape_in_files());
  }
  return shapes;
}

StoredDtypes stored_dtypes(const ModelConfig& config) {
  StoredDtypes dtypes{config.files.dtypes.main, {}};
  if (config.files.dtypes.others.empty()) return dtypes;
  for (const StoredTensor& tensor : shard_tensors(config, 0, config.num_sublayers())) {
    dtypes.set(tensor.name, config.files.dtypes.of(tensor.name));
  }
  return dtypes;
}

}  // namespace dotresize
