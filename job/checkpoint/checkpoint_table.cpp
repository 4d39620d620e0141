#include "job/checkpoint/checkpoint_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/model/tensor_table.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Limit of the tensors that fused experts become, larger than in any existing model. A small
/// header may ask for billions.
constexpr std::size_t kMaxExpertTensors = 1'000'000;

[[noreturn]] void refuse_placement(const fs::path& dir, const std::string& file,
                                   const std::string& tensor, const std::string& listed_in) {
  throw InputError((dir / file).string() + ": tensor " + in_quotes(tensor) +
                   " is in this file, but " + kIndexFile + " " +
                   (listed_in.empty() ? "does not list it" : "places it in " + listed_in));
}

TensorPlace place_of(const std::string& file, const std::string& name, const TensorInfo& info) {
  return {file, name, info.dtype, info.shape, info.begin, info.end};
}

/// Returns the tensors of all headers under their stored names.
std::map<std::string, TensorPlace> stored_places(
    const CheckpointFiles& files, const std::map<std::string, SafetensorsHeader>& headers,
    const fs::path& dir) {
  std::map<std::string, TensorPlace> places;
  for (const std::string& file : files.names) {
    for (const auto& [name, info] : headers.at(file).tensors) {
      const auto listed = files.index.find(name);
      if (listed != files.index.end() && listed->second != file) {
        refuse_placement(dir, file, name, listed->second);
      }
      const auto [other, is_new] = places.emplace(name, place_of(file, name, info));
      if (!is_new) refuse_placement(dir, file, name, "");
    }
  }
  return places;
}

/// Adds `model.`, which the files of a base model leave out, to all names but the head's.
std::map<std::string, TensorPlace> with_model_prefix(std::map<std::string, TensorPlace> places) {
  constexpr std::string_view kPrefix = "model.";
  const auto begins = [&](std::string_view prefix) {
    const auto first = places.lower_bound(std::string(prefix));
    return first != places.end() && first->first.starts_with(prefix);
  };
  if (begins(kPrefix) || !begins("layers.")) return places;
  std::map<std::string, TensorPlace> named;
  for (auto& [name, place] : places) {
    const bool is_head = name.starts_with("lm_head.");
    named.emplace(is_head ? name : std::string(kPrefix) + name, std::move(place));
  }
  return named;
}

/// Moves the layers that predict further tokens from table.tensors to table.further.
void leave_out_further_layers(const ModelConfig& config, CheckpointTable& table) {
  for (const std::string& beginning : config.files.further_layers) {
    auto place = table.tensors.lower_bound(beginning);
    while (place != table.tensors.end() && place->first.starts_with(beginning)) {
      table.further.push_back(place->first);
      place = table.tensors.erase(place);
    }
  }
}

/// Moves the text part's tensors of a wrapper to the names of a model of text, and leaves the
/// others in table.others.
void take_text_part(const fs::path& dir, CheckpointTable& table) {
  table.others = std::exchange(table.tensors, {});
  std::vector<std::string> names = table.absent;
  for (const auto& entry : table.others) names.push_back(entry.first);
  table.wrapper_names = find_wrapper_names(names);
  if (table.wrapper_names == nullptr) {
    throw InputError(
        dir.string() +
        ": no tensor of the text part, whose names begin with 'language_model.model.' or "
        "'model.language_model.'" +
        (names.empty() ? "" : "; there are others, such as " + in_quotes(names.front())));
  }
  const WrapperNames& layout = *table.wrapper_names;
  for (std::string& name : table.absent) name = text_name(layout, name).value_or(name);
  for (auto place = table.others.begin(); place != table.others.end();) {
    const std::optional<std::string> name = text_name(layout, place->first);
    if (!name && is_of_text(place->first)) {
      throw InputError((dir / place->second.file).string() + ": tensor " + in_quotes(place->first) +
                       " is of the text part, whose other names begin with " +
                       in_quotes(layout.base) + "; remove the one that is not the model");
    }
    if (name) table.tensors.emplace(*name, std::move(place->second));
    place = name ? table.others.erase(place) : std::next(place);
  }
}

/// Returns a part of a tensor: number `index` of `count` along its first dimension.
TensorPlace slice_of(const TensorPlace& whole, int64_t index, int64_t count) {
  const auto at = [&](int64_t part) {
    return whole.begin + whole.bytes() / static_cast<uint64_t>(count) * static_cast<uint64_t>(part);
  };
  TensorPlace place = whole;
  place.begin = at(index);
  place.end = at(index + 1);
  place.shape.erase(place.shape.begin());
  if (whole.quantised) {
    auto form = std::make_shared<QuantisedPlace>(*whole.quantised);
    form->scales = slice_of(form->scales, index, count);
    place.quantised = std::move(form);
  }
  return place;
}

/// Takes the experts of tensors of all experts apart: those that are stored as one in every
/// checkpoint of the family, and those that transformers 5 fuses, gate_up_proj [experts, 2 d_ff, d]
/// and down_proj [experts, d, d_ff]. Each matrix of an expert is contiguous in them.
class ExpertSplitter {
 public:
  ExpertSplitter(const ModelConfig& config, std::map<std::string, TensorPlace>& places)
      : config_(config), places_(places) {}

  void split() {
    for (int64_t layer = 0; layer < config_.num_layers(); ++layer) {
      const MlpSpec& mlp = config_.layers[layer].mlp;
      if (!mlp.mixture) continue;
      if (mlp.mixture->names.stacked) {
        take_slices(2 * layer + 1);
        continue;
      }
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      split_layer(prefix, mlp);
      // transformers 5 has the router of every family in `mlp`.
      const std::string block(mlp.mixture->names.block);
      if (block != "mlp") rename(prefix + "mlp.gate.weight", prefix + block + ".gate.weight");
    }
  }

 private:
  /// Puts the slices of the sublayer's tensors in place of tensors of all experts. One of another
  /// shape stays as it is.
  void take_slices(int64_t sublayer) {
    std::set<std::string> taken;
    for (const StoredTensor& tensor : sublayer_tensors(config_, sublayer)) {
      if (!tensor.slice) continue;
      const auto& [whole_name, index, count] = *tensor.slice;
      const auto whole = places_.find(whole_name);
      if (whole == places_.end() || whole->second.shape != tensor.shape_in_files()) continue;
      count_made(1);
      TensorPlace place = slice_of(whole->second, index, count);
      if (place.shape.size() == 2) {
        std::ranges::reverse(place.shape);
        place.transposed = !place.transposed;
      }
      add(tensor.name, std::move(place), whole_name);
      taken.insert(whole_name);
    }
    for (const std::string& name : taken) places_.erase(name);
  }

  void count_made(std::size_t tensors) {
    made_ += tensors;
    if (made_ > kMaxExpertTensors) {
      throw InputError("the fused experts are more than " + std::to_string(kMaxExpertTensors) +
                       " matrices");
    }
  }

  void add(const std::string& name, TensorPlace place, const std::string& fused) {
    if (places_.emplace(name, std::move(place)).second) return;
    throw InputError("the experts are stored twice: " + in_quotes(fused) +
                     " has all of a layer, and " + in_quotes(name) +
                     " one of them; remove one of the two");
  }

  void split_layer(const std::string& prefix, const MlpSpec& mlp) {
    const MixtureNames& names = mlp.mixture->names;
    const int64_t experts = mlp.mixture->experts;
    const int64_t rows = mlp.intermediate_size;
    const int64_t d = config_.hidden_size;
    const std::string to = prefix + std::string(names.block) + ".experts.";
    for (const std::string& stored : {prefix + "mlp.experts.", to}) {
      split_tensor(stored + "gate_up_proj", {experts, 2 * rows, d}, to, {names.gate, names.up});
      split_tensor(stored + "down_proj", {experts, d, rows}, to, {names.down});
    }
  }

  void split_tensor(const std::string& fused, const std::vector<int64_t>& shape,
                    const std::string& prefix, const std::vector<std::string_view>& parts) {
    const auto found = places_.find(fused);
    if (found == places_.end() || found->second.shape != shape) return;
    const TensorPlace whole = found->second;
    places_.erase(found);
    const auto count = static_cast<int64_t>(parts.size());
    const std::vector<int64_t> part_shape = {shape[1] / count, shape[2]};
    count_made(static_cast<std::size_t>(shape[0] * count));
    const uint64_t bytes = (whole.end - whole.begin) / static_cast<uint64_t>(shape[0] * count);
    uint64_t begin = whole.begin;
    for (int64_t expert = 0; expert < shape[0]; ++expert) {
      for (const std::string_view part : parts) {
        const std::string name =
            prefix + std::to_string(expert) + "." + std::string(part) + ".weight";
        add(name, {whole.file, whole.stored_name, whole.dtype, part_shape, begin, begin + bytes},
            fused);
        begin += bytes;
      }
    }
  }

  void rename(const std::string& from, const std::string& to) {
    auto node = places_.extract(from);
    if (node.empty()) return;
    node.key() = to;
    places_.insert(std::move(node));
  }

  const ModelConfig& config_;
  std::map<std::string, TensorPlace>& places_;
  std::size_t made_ = 0;
};

}  // namespace

std::vector<int64_t> TensorPlace::stored_shape() const {
  std::vector<int64_t> stored = shape;
  if (transposed) std::swap(stored.at(stored.size() - 2), stored.back());
  return stored;
}

bool is_weight_dtype(const std::string& dtype) {
  constexpr std::array<std::string_view, 4> kWeightDtypes = {"F64", "F32", "F16", "BF16"};
  return std::ranges::count(kWeightDtypes, dtype) > 0;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

CheckpointTable table_as_stored(const CheckpointFiles& files,
                                const std::map<std::string, SafetensorsHeader>& headers,
                                const fs::path& dir) {
  CheckpointTable table{.tensors = stored_places(files, headers, dir)};
  if (files.index.empty()) return table;
  for (const auto& [name, file] : files.index) {
    if (table.tensors.contains(name)) continue;
    throw InputError((dir / kIndexFile).string() + ": tensor " + in_quotes(name) +
                     " should be in " + file + ", which does not hold it");
  }
  for (const auto& [name, place] : table.tensors) {
    if (!files.index.contains(name)) refuse_placement(dir, place.file, name, "");
  }
  return table;
}

CheckpointTable table_of_model(const CheckpointFiles& files,
                               const std::map<std::string, SafetensorsHeader>& headers,
                               const fs::path& dir, const ModelConfig& config) {
  CheckpointTable table{.tensors = stored_places(files, headers, dir)};
  for (const auto& entry : files.index) {
    if (!table.tensors.contains(entry.first)) table.absent.push_back(entry.first);
  }
  leave_out_further_layers(config, table);
  if (config.files.wrapper) {
    take_text_part(dir, table);
  } else {
    table.tensors = with_model_prefix(std::move(table.tensors));
  }
  if (config.files.quantisation) take_scales(dir, *config.files.quantisation, table);
  ExpertSplitter(config, table.tensors).split();
  // transformers 5 ties the two in either direction.
  const auto head = table.tensors.find("lm_head.weight");
  if (config.tie_word_embeddings && head != table.tensors.end()) {
    table.tensors.emplace(embedding_tensor(config).name, head->second);
  }
  return table;
}

}  // namespace dotresize
