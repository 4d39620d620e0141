#include "job/checkpoint/model_files.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/model/read_model_config.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

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

}  // namespace

std::vector<std::string> check_model_files(const fs::path& dir, const CheckpointFiles& files) {
  std::vector<std::string> weights;
  std::vector<std::string> others;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::count(kAdapterFiles, name) > 0) {
      throw InputError((dir / name).string() +
                       ": transformers with peft adds this adapter to the weights; merge it and "
                       "save the model (model.merge_and_unload().save_pretrained(DIR)), or move "
                       "the adapter_* files away to use the model without it");
    }
    if (is_read(name, files) || is_idle(name)) continue;
    (name.ends_with(".safetensors") ? weights : others).push_back(name);
  }
  std::ranges::sort(weights);
  std::ranges::sort(others);
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
