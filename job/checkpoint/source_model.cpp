#include "job/checkpoint/source_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/checkpoint/checkpoint_files.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/model/read_model_config.h"
#include "job/model/tensor_table.h"
#include "job/model/tokenizer_class.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::size_t kNamedTensors = 3;  // in one sentence

/// float64 is read as float32.
constexpr std::array<std::pair<std::string_view, Dtype>, 4> kDtypes = {
    {{"F64", Dtype::kFloat32},
     {"F32", Dtype::kFloat32},
     {"F16", Dtype::kFloat16},
     {"BF16", Dtype::kBFloat16}}};

Dtype dtype_of(const TensorPlace& place) {
  return std::ranges::find(kDtypes, place.dtype, &std::pair<std::string_view, Dtype>::first)
      ->second;
}

int64_t elements_of(const TensorPlace& place) {
  const std::string& stored = place.quantised ? place.quantised->dtype : place.dtype;
  const auto numbers = static_cast<int64_t>(place.bytes()) / safetensors_dtype_size(stored);
  return place.quantised && place.quantised->packed ? 2 * numbers : numbers;
}

/// Calls `visit` with the name and the place of each tensor of the model, and with true for those
/// of its layers.
template <class Visit>
void for_each_tensor(const ModelConfig& config, const CheckpointTable& table, const Visit& visit) {
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    for (const StoredTensor& tensor : shard_tensors(config, sublayer, sublayer + 1)) {
      visit(tensor.name, table.tensors.at(tensor.name), tensor.name.starts_with("model.layers."));
    }
  }
}

StoredDtypes dtypes_of(const ModelConfig& config, const CheckpointTable& table) {
  std::map<Dtype, int64_t> elements;
  for_each_tensor(config, table, [&](const auto&, const TensorPlace& place, bool in_layer) {
    // Layers without any tensor leave the choice to the ends.
    elements[dtype_of(place)] += in_layer ? elements_of(place) : 0;
  });
  StoredDtypes dtypes;
  dtypes.main =
      std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; })->first;
  for_each_tensor(config, table, [&](const std::string& name, const TensorPlace& place, bool) {
    if (dtype_of(place) != dtypes.main) dtypes.others.emplace(name, dtype_of(place));
  });
  return dtypes;
}

/// Returns true for stored tensors that a model computes anew, so that they are without effect.
bool is_computed(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".masked_bias") ||
         name.ends_with(".rotary_emb.cos_cached") || name.ends_with(".rotary_emb.sin_cached");
}

std::string tensors_text(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamedTensors) break;
    shown.push_back(in_quotes(name));
  }
  if (names.size() > shown.size()) {
    shown.push_back(std::to_string(names.size() - shown.size()) + " more");
  }
  return (names.size() == 1 ? "tensor " : "tensors ") + listed(shown);
}

void warn_about_tensors(const ModelConfig& config, const CheckpointTable& table,
                        std::vector<std::string>& warnings) {
  std::set<std::string_view> used;
  for_each_tensor(config, table, [&](const std::string& name, const TensorPlace&, bool) {
    used.insert(table.tensors.find(name)->first);
  });
  std::vector<std::string> unused;
  for (const auto& entry : table.tensors) {
    const bool is_tied_head = config.tie_word_embeddings && entry.first == kHead;
    if (used.contains(entry.first) || is_computed(entry.first) || is_tied_head) continue;
    unused.push_back(entry.first);
  }
  if (!unused.empty()) {
    warnings.push_back(tensors_text(unused) + ": not part of a " + config.family +
                       " with this config.json, and not read");
  }
  if (!table.further.empty()) {
    warnings.push_back(tensors_text(table.further) +
                       ": layers that predict further tokens are not read, and an output has none");
  }
  const bool float64 = std::ranges::any_of(
      table.tensors, [](const auto& entry) { return entry.second.dtype == "F64"; });
  if (float64) {
    warnings.emplace_back(
        "there are tensors in float64: they are read as float32, and sizes count them so");
  }
}

/// Sets what the files say of a wrapper.
void settle_wrapper(const CheckpointTable& table, bool text_ties, ModelConfig& config) {
  Wrapper& wrapper = *config.files.wrapper;
  if (table.wrapper_names != nullptr) {
    wrapper.base_names = table.wrapper_names->base;
    wrapper.head_names = table.wrapper_names->head;
  }
  wrapper.other_tensors = std::ssize(table.others);
  for (const auto& entry : table.others) {
    wrapper.other_bytes += static_cast<int64_t>(entry.second.bytes());
  }
  // transformers 5 writes `true` around text parts that are not tied, and then ties nothing if
  // there is a head; transformers 4 looks at the text part alone.
  if (!text_ties && table.tensors.contains(std::string(kHead))) config.tie_word_embeddings = false;
}

/// Returns the end of the message that a directory has no config.json.
std::string advice_on_missing_config(const fs::path& dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir / "snapshots", error)) {
    return "; this is a folder of the Hub's cache: give " + entry.path().string();
  }
  if (fs::exists(dir / "adapter_config.json", error)) {
    return "; there is an adapter, which is no model: merge it into its base and save that "
           "(model.merge_and_unload().save_pretrained(DIR))";
  }
  return "";
}

}  // namespace

SourceModel read_source_model(const fs::path& dir, const Confinement& confinement) {
  SourceModel model;
  std::error_code error;
  require_search_permission(dir);
  if (!fs::exists(fs::symlink_status(dir / "config.json", error)) && fs::is_directory(dir, error)) {
    throw InputError((dir / "config.json").string() + ": no such file" +
                     advice_on_missing_config(dir));
  }
  ParsedConfig parsed = read_parsed_config(dir, confinement);
  model.config = std::move(parsed.model);
  model.warnings = std::move(parsed.warnings);
  model.config.files.tokenizer = read_tokenizer_form(dir, model.config, confinement);
  if (!has_checkpoint_files(dir)) {
    std::ranges::move(check_model_files(dir, {}), std::back_inserter(model.warnings));
    return model;
  }
  model.files = find_checkpoint_files(dir, confinement);
  std::ranges::move(check_model_files(dir, model.files), std::back_inserter(model.warnings));
  std::map<std::string, SafetensorsHeader> headers;
  for (const std::string& name : model.files.names) {
    const InputFile file((dir / name).string(), confinement);
    const SafetensorsHeader& header =
        headers.emplace(name, read_safetensors_header(file)).first->second;
    for (const auto& [tensor, info] : header.tensors) {
      model.config.files.bytes += static_cast<int64_t>(info.end - info.begin);
    }
  }
  const CheckpointTable& table =
      model.table.emplace(table_of_model(model.files, headers, dir, model.config));
  if (model.config.files.wrapper) settle_wrapper(table, parsed.text_ties, model.config);
  require_tensors(table, dir, model.config);
  model.config.files.dtypes = dtypes_of(model.config, table);
  const std::optional<Dtype> stated = model.config.files.stated_dtype;
  if (stated && *stated != model.config.files.dtypes.main) {
    model.warnings.push_back("config.json says " + to_string(*stated) + ", and the tensors are " +
                             to_string(model.config.files.dtypes.main) +
                             ": sizes and the output's dtype are those of the tensors");
  }
  warn_about_tensors(model.config, table, model.warnings);
  return model;
}

void require_weights(const fs::path& dir, const SourceModel& model) {
  if (!model.table) find_checkpoint_files(dir);  // throws, with what there is instead
  require_equal_tied_head(dir, model);
}

SourceModel read_model_with_weights(const fs::path& dir) {
  SourceModel model = read_source_model(dir);
  require_weights(dir, model);
  return model;
}

void require_equal_tied_head(const fs::path& dir, const SourceModel& model,
                             const Confinement& confinement) {
  if (!model.table || !model.config.tie_word_embeddings) return;
  const auto head = model.table->tensors.find(std::string(kHead));
  if (head == model.table->tensors.end()) return;
  const TensorPlace& one = model.table->tensors.at(embedding_tensor(model.config).name);
  const TensorPlace& other = head->second;
  const auto refuse = [&](const std::string& difference) {
    throw InputError(
        (dir / "config.json").string() + ": tie_word_embeddings: is true, and " + in_quotes(kHead) +
        " is stored with " + difference +
        ": transformers 4 ties them, transformers 5 does not. If the head is a matrix of its own, "
        "set \"tie_word_embeddings\": false; if not, remove it: load the model with transformers "
        "4, and save it with save_pretrained");
  };
  if (one.quantised || other.quantised) refuse("scales of its own");
  if (one.dtype != other.dtype)
    refuse("dtype " + other.dtype + ", the embedding with " + one.dtype);
  if (one.shape != other.shape) {
    refuse("shape " + shape_text(other.shape) + ", the embedding with " + shape_text(one.shape));
  }
  const InputFile first((dir / one.file).string(), confinement);
  const InputFile second((dir / other.file).string(), confinement);
  constexpr uint64_t kBlock = uint64_t{1} << 20;
  std::vector<char> left(kBlock);
  std::vector<char> right(kBlock);
  for (uint64_t done = 0; done < one.end - one.begin; done += kBlock) {
    const uint64_t count = std::min(kBlock, one.end - one.begin - done);
    first.read(left.data(), count, one.begin + done);
    second.read(right.data(), count, other.begin + done);
    if (std::memcmp(left.data(), right.data(), count) != 0)
      refuse("other values than the embedding");
  }
}

}  // namespace dotresize
