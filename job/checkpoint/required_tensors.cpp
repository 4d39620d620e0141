#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/errors.h"
#include "base/text/printable.h"
#include "job/checkpoint/checkpoint_table.h"
#include "job/model/tensor_table.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

// Advice: the end of an error message, which says what the files have in place of what is missing,
// and the command or the line that mends it. It begins with "; " or ": ", or is empty.

/// Layout of weights that is recognised by a part of a tensor's name.
struct NameSign {
  std::string_view part;
  std::string_view advice;
};

constexpr std::array kLayouts = {
    NameSign{"_orig_mod.",
             ": the names have `_orig_mod.`, as torch.compile gives them; save the model itself: "
             "getattr(model, '_orig_mod', model).save_pretrained(DIR)"},
    NameSign{"_checkpoint_wrapped_module.",
             ": the names have `_checkpoint_wrapped_module.`, as activation checkpoints give them; "
             "save the state of the model without its wrappers"},
    NameSign{"base_model.model.",
             ": the names have `base_model.model.`, as peft gives them; merge the adapter and save "
             "the model: model.merge_and_unload().save_pretrained(DIR)"},
    NameSign{".lora_A",
             ": the weights have LoRA matrices that are not merged; merge them and save the model: "
             "model.merge_and_unload().save_pretrained(DIR)"},
    NameSign{
        "language_model.",
        ": the names have `language_model.`: give this model of text and images the config.json "
        "that it is published with, which has a text_config"},
    NameSign{".attention.wq.",
             ": the names are those of Meta's or Mistral's own files; fetch the files that "
             "transformers loads, or convert them with its convert_*_weights_to_hf.py"},
    NameSign{"transformer.h.",
             ": the names are those of GPT-2's layout, which is not that of this family"},
};

constexpr std::array kQuantisers = {
    NameSign{".qweight", "GPTQ or AWQ"},
    NameSign{".weight_packed", "compressed-tensors"},
    NameSign{".quant_state.", "bitsandbytes"},
    NameSign{".absmax", "bitsandbytes"},
    NameSign{".biases", "MLX"},
    NameSign{"_proj_blocks", "MXFP4"},
};

template <class Signs>
const NameSign* sign_in(const Signs& signs, const CheckpointTable& table) {
  for (const NameSign& sign : signs) {
    const bool found = std::ranges::any_of(table.tensors, [&](const auto& entry) {
      return entry.first.find(sign.part) != std::string::npos;
    });
    if (found) return &sign;
  }
  return nullptr;
}

std::string advice_on_quantised(const NameSign* quantiser,
                                const std::optional<Quantisation>& stated) {
  if (stated) {
    return "; config.json says quantization_config " + in_quotes(stated->name) +
           " with weights in " + stated->weight_dtype + ", so one of the two is of another model";
  }
  return std::string("; quantised weights") +
         (quantiser == nullptr ? "" : ", as " + std::string(quantiser->advice) + " stores them,") +
         " are not read without the quantization_config that says what they are: fetch the "
         "model's own config.json, or give the float32, float16 or bfloat16 model";
}

/// Returns the keys of config.json that decide the shape of a tensor.
std::string_view keys_of_shape(const std::string& tensor) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kKeys = {
      {{"q_norm.", "head_dim"},
       {"k_norm.", "head_dim"},
       {"q_proj.", "num_attention_heads and head_dim"},
       {"k_proj.", "num_key_value_heads and head_dim"},
       {"v_proj.", "num_key_value_heads and head_dim"},
       {"o_proj.", "num_attention_heads and head_dim"},
       {"qkv_proj.", "num_attention_heads, num_key_value_heads and head_dim"},
       {"embed_tokens.", "vocab_size and hidden_size"},
       {"lm_head.", "vocab_size and hidden_size"},
       {"layernorm.", "hidden_size"}}};
  for (const auto& [part, keys] : kKeys) {
    if (tensor.find(part) != std::string::npos) return keys;
  }
  return "intermediate_size and hidden_size";
}

/// Returns the number of layers that the files have, judged by their names.
int64_t stored_layers(const CheckpointTable& table) {
  int64_t layers = 0;
  while (true) {
    const std::string prefix = "model.layers." + std::to_string(layers) + ".";
    const auto first = table.tensors.lower_bound(prefix);
    if (first == table.tensors.end() || !first->first.starts_with(prefix)) return layers;
    ++layers;
  }
}

/// For a tensor of another shape than config.json implies.
std::string advice_on_shape(const std::string& tensor, const std::vector<int64_t>& found) {
  if (found == std::vector<int64_t>{0}) {
    return "; it was left empty when the model was saved, as DeepSpeed ZeRO-3 does: gather the "
           "weights (zero_to_fp32.py), and save them again";
  }
  return "; in config.json " + std::string(keys_of_shape(tensor)) + " decide the shape";
}

/// For weights in `dir` without the tensor `missing`. Looks at the names of the others. `stated`:
/// what config.json says of their quantisation.
std::string advice_on_missing_tensor(const CheckpointTable& table, const fs::path& dir,
                                     const std::string& missing,
                                     const std::optional<Quantisation>& stated) {
  if (const NameSign* layout = sign_in(kLayouts, table)) return std::string(layout->advice);
  const NameSign* quantiser = sign_in(kQuantisers, table);
  if (quantiser != nullptr) return advice_on_quantised(quantiser, stated);
  if (missing == "lm_head.weight" && table.tensors.size() > 1) {
    return ": the model is not tied; if its head is the embedding, config.json needs "
           "\"tie_word_embeddings\": true";
  }
  if (missing.ends_with(".bias")) {
    return ", which a model of this family has with this attention_bias and mlp_bias in "
           "config.json; is it of another family (qwen2 has biases of q, k and v alone)?";
  }
  if (std::ranges::count(table.absent, missing) > 0) {
    return ", which " + std::string(kIndexFile) + " lists: fetch the shards again";
  }
  std::error_code error;
  if (fs::exists(dir / kSingleFile, error) && fs::exists(dir / kIndexFile, error)) {
    return ": " + std::string(kSingleFile) + " lacks it, and " + kIndexFile +
           " beside it is not read; remove the one that is not the model";
  }
  if (table.tensors.empty()) return ": its files hold no tensors";
  const int64_t layers = stored_layers(table);
  if (layers > 0 && missing.starts_with("model.layers." + std::to_string(layers) + ".")) {
    return ": its files have " + std::to_string(layers) +
           " layers, fewer than num_hidden_layers of config.json";
  }
  return "; there are " + std::to_string(table.tensors.size()) + " others, such as " +
         in_quotes(table.tensors.begin()->first);
}

void require_tensor(const CheckpointTable& table, const fs::path& dir, const ModelConfig& config,
                    const StoredTensor& tensor) {
  auto found = table.tensors.find(tensor.name);
  // A tensor of all experts that is there has not been taken apart, because of its shape.
  const bool whole = found == table.tensors.end() && tensor.slice;
  if (whole) found = table.tensors.find(tensor.slice->whole);
  if (found == table.tensors.end()) {
    const std::string& missing = tensor.name_in_files();
    throw InputError(dir.string() + ": the checkpoint has no tensor " + in_quotes(missing) +
                     advice_on_missing_tensor(table, dir, missing, config.files.quantisation));
  }
  const std::vector<int64_t> expected = whole ? tensor.shape_in_files() : tensor.shape;
  const TensorPlace& place = found->second;
  const std::string where = (dir / place.file).string() + ": tensor " +
                            in_quotes(whole ? tensor.slice->whole : tensor.name);
  if (!is_weight_dtype(place.dtype)) {
    throw InputError(where + " has dtype " + place.dtype + ", expected one of F32, F16, BF16" +
                     advice_on_quantised(sign_in(kQuantisers, table), config.files.quantisation));
  }
  if (place.shape == expected) return;
  throw InputError(where + " has shape " + shape_text(place.shape) + ", expected " +
                   shape_text(expected) + advice_on_shape(tensor.name, place.shape));
}

}  // namespace

void require_tensors(const CheckpointTable& table, const fs::path& dir, const ModelConfig& config) {
  // One sublayer at a time: a hostile config may describe more tensors than fit in memory.
  for (int64_t sublayer = 0; sublayer < config.num_sublayers(); ++sublayer) {
    for (const StoredTensor& tensor : shard_tensors(config, sublayer, sublayer + 1)) {
      require_tensor(table, dir, config, tensor);
    }
  }
}

}  // namespace dotresize
