#include "job/checkpoint/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/work_budget.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/checkpoint/strict_json.h"
#include "job/model/read_model_config.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// Largest size of a model.safetensors.index.json.
constexpr uint64_t kMaxIndexBytes = 100'000'000;

/// Reads "weight_map" and skips everything else ("metadata").
class IndexHandler final : public StrictJsonHandler {
 public:
  using StrictJsonHandler::StrictJsonHandler;

  std::map<std::string, std::string> files;  ///< by tensor; complete once the text is parsed

  bool string(string_t& value) override {
    if (passes_over() || depth_ == 1) return StrictJsonHandler::string(value);
    if (value.empty() || value == "." || value == ".." ||
        value.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
      refuse("file " + in_quotes(value) + " is not a plain file name within the directory");
    }
    files.emplace(tensor_, std::move(value));
    return true;
  }

  bool start_object(size_t elements) override {
    if (!passes_over() && depth_ > 1) return StrictJsonHandler::start_object(elements);
    ++depth_;
    return true;
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool start_array(size_t elements) override {
    if (!passes_over()) return StrictJsonHandler::start_array(elements);
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      section_ = value;
      tensor_.clear();
      if (section_ == "weight_map" && std::exchange(has_map_, true)) {
        refuse("the key appears twice");
      }
    } else if (!passes_over()) {
      tensor_ = value;
      if (files.contains(tensor_)) refuse("the name appears twice");
    }
    return true;
  }

 private:
  bool passes_over() const override { return section_ != "weight_map"; }

  std::string where() const override {
    return !passes_over() && depth_ > 1 ? "weight_map, tensor " + in_quotes(tensor_) : "weight_map";
  }

  uint64_t depth_ = 0;  ///< nesting of objects and arrays; 1 directly inside the document's braces
  bool has_map_ = false;
  std::string section_;  ///< last key at depth 1
  std::string tensor_;
};

constexpr std::size_t kNamedFiles = 4;  // in one sentence

constexpr std::array<std::string_view, 6> kAdapterFiles = {
    "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin", "adapters.safetensors",
    "adapter.json",        "new_embeddings.safetensors"};

/// Beginnings of the names of files that transformers does not load into the model.
constexpr std::array<std::string_view, 31> kIdlePrefixes = {".",
                                                            "README",
                                                            "readme",
                                                            "LICENSE",
                                                            "LICENCE",
                                                            "license",
                                                            "NOTICE",
                                                            "USE_POLICY",
                                                            "SHA256SUMS",
                                                            "pytorch_model",
                                                            "tf_model",
                                                            "flax_model",
                                                            "consolidated",
                                                            "trainer_",
                                                            "training_",
                                                            "optimizer",
                                                            "scheduler",
                                                            "rng_state",
                                                            "checkpoint-",
                                                            "global_step",
                                                            "runs",
                                                            "original",
                                                            "onnx",
                                                            "openvino",
                                                            "coreml",
                                                            "preprocessor",
                                                            "processor",
                                                            "image_process",
                                                            "video_process",
                                                            "events.out",
                                                            "all_results"};

constexpr std::array<std::string_view, 26> kIdleNames = {
    "dotresize",
    "params.json",
    "tekken.json",
    "tokenizer.model.v3",
    "vocab.txt",
    "spiece.model",
    "eval_results.json",
    "train_results.json",
    "generation_config_for_text_generation.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "1_Pooling",
    "model_card.md",
    "figures",
    "assets",
    "images",
    "zero_to_fp32.py",
    "latest",
    "metal",
    "quant_config.json",
    "recipe.yaml",
    "mergekit_config.yml",
    "mergekit_config.yaml",
    "tokenizer.json.bak",
    "configuration.json"};

constexpr std::array<std::string_view, 29> kIdleExtensions = {
    ".md",   ".txt",   ".png",     ".jpg",   ".jpeg",    ".gif",  ".svg", ".pdf",
    ".html", ".ipynb", ".bin",     ".pt",    ".pth",     ".ckpt", ".h5",  ".onnx",
    ".gguf", ".ggml",  ".mlmodel", ".log",   ".msgpack", ".yaml", ".yml", ".py",
    ".sh",   ".toml",  ".parquet", ".jsonl", ".csv"};

bool is_idle(const std::string& name) {
  const std::string extension = fs::path(name).extension().string();
  return std::ranges::any_of(kIdlePrefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::ranges::count(kIdleNames, name) > 0 ||
         std::ranges::count(kIdleExtensions, extension) > 0;
}

bool is_read(const std::string& name, const CheckpointFiles& files) {
  return name == "config.json" || name == kIndexFile ||
         std::ranges::count(kCompanionFiles, name) > 0 ||
         std::ranges::binary_search(files.names, name);
}

/// "a, b, c, d and 12 others".
std::string named(const std::vector<std::string>& files) {
  std::vector<std::string> shown(files.begin(),
                                 files.begin() + std::min(files.size(), kNamedFiles));
  std::ranges::transform(shown, shown.begin(),
                         [](const auto& name) { return printable(name, 80); });
  if (files.size() > shown.size()) {
    shown.push_back(std::to_string(files.size() - shown.size()) + " more");
  }
  return listed(shown);
}

/// Returns the names of a directory's entries, sorted; as many as can be read.
std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Returns the end of the message that there are no weights: what the names of the files say.
std::string advice_on_missing_weights(const fs::path& dir) {
  struct FileSign {
    std::function<bool(const std::string&)> matches;
    std::string_view advice;  ///< follows the file's name
  };
  const auto ends = [](std::string_view ending) {
    return [ending](const std::string& name) { return name.ends_with(ending); };
  };
  const std::array signs = {
      FileSign{[](const std::string& name) { return name.starts_with("adapter_"); },
               " is an adapter, which is no model: merge it into its base and save that "
               "(model.merge_and_unload().save_pretrained(DIR))"},
      FileSign{[](const std::string& name) { return name.starts_with("consolidated"); },
               " is in Mistral's or Meta's own layout: fetch the files that transformers loads"},
      FileSign{[](const std::string& name) {
                 return name.starts_with("pytorch_model") && name.find(".bin") != name.npos;
               },
               " is not read: load the model with transformers and save it with save_pretrained, "
               "which writes safetensors"},
      FileSign{ends(".gguf"),
               " is not read: give the model that the GGUF file was made from, or convert it: "
               "AutoModelForCausalLM.from_pretrained(DIR, gguf_file=FILE).save_pretrained(OUT)"},
      FileSign{ends(".safetensors"),
               " has another name: if all shards are there, fetch or write their "
               "model.safetensors.index.json, which save_pretrained of transformers does"},
      FileSign{ends(".pth"), " is not read: fetch the files that transformers loads"},
  };
  const std::vector<std::string> names = names_in(dir);
  for (const FileSign& sign : signs) {
    const auto found = std::ranges::find_if(names, sign.matches);
    if (found != names.end()) return "; " + in_quotes(*found) + std::string(sign.advice);
  }
  return "; a model directory needs one of them";
}

/// Returns the end of the message that a shard is missing.
std::string advice_on_missing_shard(const fs::path& dir) {
  std::vector<std::string> names = names_in(dir);
  std::erase_if(names, [](const fs::path& name) { return name.extension() != ".safetensors"; });
  if (names.empty()) return ": fetch the shards";
  return ": fetch it; there is " + in_quotes(names.front()) +
         (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
}

}  // namespace

bool has_checkpoint_files(const fs::path& dir) {
  std::error_code error;
  return std::ranges::any_of(std::array{kSingleFile, kIndexFile}, [&](const char* name) {
    return fs::exists(fs::symlink_status(dir / name, error));
  });
}

void require_search_permission(const fs::path& dir) {
  if (::faccessat(AT_FDCWD, dir.c_str(), X_OK, AT_EACCESS) == 0 || errno != EACCES) return;
  throw InputError(dir.string() + ": cannot open: " + std::generic_category().message(errno));
}

CheckpointFiles find_checkpoint_files(const fs::path& dir, const Confinement& confinement) {
  require_search_permission(dir);
  std::error_code error;
  if (!fs::is_directory(dir, error)) throw InputError(dir.string() + ": no such model directory");
  CheckpointFiles found;
  const auto add = [&](const std::string& file, const std::string& where) {
    if (std::ranges::count(found.names, file) > 0) return;
    if (fs::exists(dir / file, error)) return found.names.push_back(file);
    const bool link = fs::is_symlink(fs::symlink_status(dir / file, error));
    throw InputError(where + (link ? " is a link to a file that is not there; fetch the model again"
                                   : " is missing" + advice_on_missing_shard(dir)));
  };
  const fs::path index_path = dir / kIndexFile;
  if (fs::exists(fs::symlink_status(dir / kSingleFile, error))) {
    add(kSingleFile, (dir / kSingleFile).string());
  } else if (fs::exists(index_path, error)) {
    found.index = parse_shard_index(read_whole_file(index_path, kMaxIndexBytes, confinement),
                                    index_path.string());
    for (const auto& [name, file] : found.index) {
      add(file,
          index_path.string() + ": shard " + in_quotes(file) + " of tensor " + in_quotes(name));
    }
    std::ranges::sort(found.names);
  } else {
    throw InputError(dir.string() + ": neither " + kSingleFile + " nor " + kIndexFile +
                     advice_on_missing_weights(dir));
  }
  return found;
}

std::map<std::string, std::string> parse_shard_index(const std::string& text,
                                                     const std::string& origin) {
  IndexHandler handler(origin);
  // The text, and the table that is made of it.
  constexpr size_t kMemoryPerByte = 4;
  WorkBudget::check();
  WorkBudget::take(kMemoryPerByte * text.size());
  parse_strict_json(text.data(), text.size(), origin, handler);
  if (handler.files.empty()) {
    throw InputError(origin +
                     ": weight_map: no tensors; an index has a \"weight_map\" of tensor names to "
                     "file names");
  }
  return std::move(handler.files);
}

std::vector<std::string> check_model_files(const fs::path& dir, const CheckpointFiles& files) {
  std::vector<std::string> weights;
  std::vector<std::string> others;
  for (const std::string& name : names_in(dir)) {
    if (std::ranges::count(kAdapterFiles, name) > 0) {
      throw InputError((dir / name).string() +
                       ": transformers with peft adds this adapter to the weights; merge it and "
                       "save the model (model.merge_and_unload().save_pretrained(DIR)), or move "
                       "the adapter_* files away to use the model without it");
    }
    if (is_read(name, files) || is_idle(name)) continue;
    (name.ends_with(".safetensors") ? weights : others).push_back(name);
  }
  std::vector<std::string> warnings;
  if (!weights.empty()) {
    const bool whole = !files.names.empty() && files.index.empty();
    warnings.push_back(named(weights) + ": not read, because " +
                       (whole                 ? std::string(kSingleFile) + " is the whole model"
                        : files.names.empty() ? "there is no " + std::string(kIndexFile)
                                              : std::string(kIndexFile) + " does not list " +
                                                    (weights.size() == 1 ? "it" : "them")));
  }
  if (!others.empty()) {
    warnings.push_back(named(others) + ": neither read nor copied to the output");
  }
  return warnings;
}

}  // namespace dotresize
