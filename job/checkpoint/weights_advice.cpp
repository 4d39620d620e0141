#include "job/checkpoint/weights_advice.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <system_error>

#include "base/text/printable.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kDense = "give the float32, float16 or bfloat16 model";

/// Layout of weights that is recognised by a part of a tensor's name.
struct NameSign {
  std::string_view part;
  bool at_start;
  std::string_view advice;
};

constexpr std::array kNameSigns = {
    NameSign{"_orig_mod.", true,
             ": the names begin with `_orig_mod.`, as torch.compile gives them; save the model "
             "itself: getattr(model, '_orig_mod', model).save_pretrained(DIR)"},
    NameSign{"module.", true,
             ": the names begin with `module.`, as DistributedDataParallel gives them; save the "
             "model itself: model.module.save_pretrained(DIR)"},
    NameSign{"base_model.model.", true,
             ": the names begin with `base_model.model.`, as peft gives them; merge the adapter "
             "and save the model: model.merge_and_unload().save_pretrained(DIR)"},
    NameSign{".lora_A", false,
             ": the weights have LoRA matrices that are not merged; merge them and save the model: "
             "model.merge_and_unload().save_pretrained(DIR)"},
    NameSign{"language_model.", true,
             ": the names begin with `language_model.`: this is a model of text and images, which "
             "is not supported; give its text model"},
    NameSign{"model.language_model.", true,
             ": the names begin with `model.language_model.`: this is a model of text and images, "
             "which is not supported; give its text model"},
    NameSign{".qweight", false,
             ": the weights are quantised, as GPTQ or AWQ stores them, although config.json has no "
             "quantization_config; "},
    NameSign{".weight_packed", false,
             ": the weights are quantised, as compressed-tensors stores them, although config.json "
             "has no quantization_config; "},
    NameSign{
        ".quant_state.", false,
        ": the weights are quantised, as bitsandbytes stores them, although config.json has no "
        "quantization_config; "},
    NameSign{".attention.wq.", false,
             ": the names are those of Meta's or Mistral's own files; take the files that "
             "transformers loads, or convert them with its convert_*_weights_to_hf.py"},
    NameSign{"transformer.h.", true,
             ": the names are those of GPT-2's layout, which is not that of this family"},
};

bool is_quantised(std::string_view advice) { return advice.ends_with("quantization_config; "); }

}  // namespace

std::string advice_on_missing_weights(const fs::path& dir) {
  struct FileSign {
    std::function<bool(const std::string&)> matches;
    std::string_view advice;
  };
  const auto ends = [](std::string_view ending) {
    return [ending](const std::string& name) { return name.ends_with(ending); };
  };
  const std::array kSigns = {
      FileSign{[](const std::string& name) { return name == "snapshots" || name == "blobs"; },
               "; this is a folder of the Hub's cache: give the one below its snapshots/"},
      FileSign{[](const std::string& name) { return name.starts_with("adapter_"); },
               "; there is an adapter, which is no model: merge it into its base and save that "
               "(model.merge_and_unload().save_pretrained(DIR))"},
      FileSign{[](const std::string& name) { return name.starts_with("consolidated"); },
               "; consolidated files are in Mistral's or Meta's own layout: fetch the files that "
               "transformers loads"},
      FileSign{[](const std::string& name) {
                 return name.starts_with("pytorch_model") && name.find(".bin") != name.npos;
               },
               "; pytorch_model.bin is not read: load the model with transformers and save it with "
               "save_pretrained, which writes safetensors"},
      FileSign{ends(".gguf"),
               "; a GGUF file is not read: give the model that it was made from, or convert it: "
               "AutoModelForCausalLM.from_pretrained(DIR, gguf_file=FILE).save_pretrained(OUT)"},
      FileSign{[ends](const std::string& name) {
                 return ends(".safetensors")(name) && name != kSingleFile;
               },
               "; its safetensors files have other names: if they are all of the model, load it "
               "with transformers and save it with save_pretrained"},
      FileSign{ends(".pth"), "; .pth files are not read: fetch the files that transformers loads"},
  };
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    names.push_back(entry.path().filename().string());
  }
  for (const FileSign& sign : kSigns) {
    if (std::ranges::any_of(names, sign.matches)) return std::string(sign.advice);
  }
  return "; a model directory needs one of them";
}

std::string advice_on_dtype(const std::string& dtype) {
  if (dtype == "F64") {
    return ": load the model with transformers, and save it in another dtype: "
           "model.float().save_pretrained(DIR)";
  }
  return "; quantised weights are not read: " + std::string(kDense);
}

std::string advice_on_missing_tensor(const CheckpointTable& table, const std::string& missing) {
  for (const NameSign& sign : kNameSigns) {
    const bool found = std::ranges::any_of(table.tensors, [&](const auto& entry) {
      return sign.at_start ? entry.first.starts_with(sign.part)
                           : entry.first.find(sign.part) != std::string::npos;
    });
    if (!found) continue;
    return std::string(sign.advice) + (is_quantised(sign.advice) ? std::string(kDense) : "");
  }
  if (missing == "lm_head.weight") {
    return ": the model is not tied; if its head is the embedding, config.json needs "
           "\"tie_word_embeddings\": true";
  }
  if (std::ranges::count(table.absent, missing) > 0) {
    return ", which " + std::string(kIndexFile) + " lists: fetch the shards again";
  }
  if (table.tensors.empty()) return ": its files hold no tensors";
  return "; there are " + std::to_string(table.tensors.size()) + " others, such as " +
         in_quotes(table.tensors.begin()->first);
}

}  // namespace dotresize
