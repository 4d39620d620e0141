#include <algorithm>
#include <array>
#include <string_view>

#include "job/model/config_fields.h"
#include "job/model/read_model_config.h"

namespace dotresize {
namespace {

using nlohmann::json;

constexpr int64_t kMaxBlock = int64_t{1} << 22;

/// Commands with which transformers dequantises models of these methods.
constexpr std::string_view kByCompressedTensors =
    ", or let transformers dequantise it: AutoModelForCausalLM.from_pretrained(DIR, "
    "quantization_config=CompressedTensorsConfig(dequantize=True)).save_pretrained(OUT)";
constexpr std::string_view kByBitsAndBytes =
    ", or let transformers dequantise it: "
    "AutoModelForCausalLM.from_pretrained(DIR).dequantize().save_pretrained(OUT)";

/// Refuses the weights, and says how a user gets a model that is read.
[[noreturn]] void refuse(const ConfigFields& fields, const std::string& key,
                         const std::string& what, std::string_view other_way = "") {
  fields.fail(key, what + "; give the float32, float16 or bfloat16 model that it was made from" +
                       std::string(other_way) +
                       " (if these weights are not quantised, remove the key)");
}

[[noreturn]] void refuse_compressed_tensors(const ConfigFields& fields, const std::string& key,
                                            const std::string& what) {
  refuse(fields, key, what, kByCompressedTensors);
}

void set_block(const ConfigFields& fields, const std::string& key, Quantisation& found) {
  const json& block = fields.raw(key);
  if (!block.is_array() || block.size() != 2) {
    fields.fail(key, "is not a list of two sizes, such as [128, 128]");
  }
  found.block_rows = fields.required_integer(key, block[0], 1, kMaxBlock);
  found.block_columns = fields.required_integer(key, block[1], 1, kMaxBlock);
}

/// Blocks of weights, or whole matrices, in float8. How activations are quantised is for engines.
Quantisation read_fp8(const ConfigFields& fields) {
  Quantisation found{.name = "fp8", .weight_dtype = "F8_E4M3"};
  fields.note({"activation_scheme", "modules_to_not_convert", "ignored_layers", "dequantize"});
  if (fields.text("fmt").value_or("e4m3") != "e4m3") {
    refuse(fields, "fmt", "is not e4m3, the only float8 that is read");
  }
  if (fields.text("expert_dtype").value_or("fp8") != "fp8") {
    refuse(fields, "expert_dtype", "is not fp8, the only type of experts that is read");
  }
  if (fields.has("weight_block_size")) set_block(fields, "weight_block_size", found);
  return found;
}

/// Reads one group of compressed-tensors, in which all `targets` have one form.
Quantisation read_group(const ConfigFields& group) {
  const std::optional<ConfigFields> weights = group.object("weights");
  if (!weights) refuse(group, "weights", "is missing, so that only activations are quantised");
  const std::string type = weights->text("type").value_or("int");
  const int64_t bits = weights->integer("num_bits", 1, 64).value_or(8);
  if (bits != 8 || (type != "float" && type != "int")) {
    refuse_compressed_tensors(*weights, "num_bits",
                              "weights of " + std::to_string(bits) + " bits (" + type +
                                  ") are not read; only those of 8 bits are, float or int");
  }
  if (!weights->boolean("symmetric", true)) {
    refuse_compressed_tensors(*weights, "symmetric",
                              "is false; weights with zero points are not read");
  }
  const std::string strategy = weights->text("strategy").value_or("tensor");
  constexpr std::array<std::string_view, 3> kStrategies = {"tensor", "channel", "block"};
  if (std::ranges::count(kStrategies, strategy) == 0) {
    refuse_compressed_tensors(*weights, "strategy",
                              "'" + strategy + "' is not read; only tensor, channel and block are");
  }
  Quantisation found{.name = "compressed-tensors",
                     .weight_dtype = type == "float" ? "F8_E4M3" : "I8"};
  if (strategy == "block") set_block(*weights, "block_structure", found);
  return found;
}

Quantisation read_compressed_tensors(const ConfigFields& fields) {
  const std::string format = fields.text("format").value_or("");
  constexpr std::array<std::string_view, 3> kFormats = {"float-quantized", "int-quantized",
                                                        "naive-quantized"};
  if (std::ranges::count(kFormats, format) == 0) {
    refuse_compressed_tensors(fields, "format",
                              "'" + format +
                                  "' of compressed-tensors is not read; only float-quantized, "
                                  "int-quantized and naive-quantized are");
  }
  if (const auto sparsity = fields.object("sparsity_config")) {
    if (sparsity->text("format").value_or("dense") != "dense") {
      refuse_compressed_tensors(*sparsity, "format", "is not dense: sparse weights are not read");
    }
  }
  const json& transforms = fields.raw("transform_config");
  if (!transforms.is_null() && transforms != json::object()) {
    refuse_compressed_tensors(fields, "transform_config",
                              "is there: weights behind transforms are not read");
  }
  const std::optional<ConfigFields> groups = fields.object("config_groups");
  std::optional<Quantisation> found;
  const json& names = fields.raw("config_groups");
  if (!groups || names.empty()) refuse(fields, "config_groups", "is missing");
  for (const auto& [name, value] : names.items()) {
    const std::optional<ConfigFields> group = groups->object(name);
    if (!group) groups->fail(name, "is null");
    const Quantisation one = read_group(*group);
    if (found && *found != one) {
      refuse_compressed_tensors(fields, "config_groups", "groups of different forms are not read");
    }
    found = one;
  }
  return *found;
}

}  // namespace

std::optional<Quantisation> read_quantisation(const ConfigFields& fields) {
  std::optional<Quantisation> found;
  const auto take = [&](const char* section, const Quantisation& one) {
    if (found && *found != one) {
      fields.fail(section,
                  "differs from quantization_config: remove the one that is not of the model");
    }
    found = one;
  };
  for (const char* section : {"quantization_config", "compression_config"}) {
    const json& keys = fields.raw(section);
    if (keys.is_null() || keys == json::object()) continue;
    const ConfigFields given = *fields.object(section);
    const std::string method =
        given.text("quant_method")
            .value_or(section == std::string_view("compression_config") ? "compressed-tensors"
                                                                        : "");
    if (method == "fp8") {
      take(section, read_fp8(given));
    } else if (method == "compressed-tensors") {
      take(section, read_compressed_tensors(given));
    } else if (method == "mxfp4") {
      given.note({"modules_to_not_convert", "dequantize"});  // the files say what is quantised
      take(section, {.name = "mxfp4", .weight_dtype = "U8", .packed = true});
    } else {
      refuse(fields, section,
             "quantised checkpoints are refused (" +
                 (method.empty() ? "without quant_method" : "'" + method + "'") +
                 "), unless of fp8, mxfp4 or compressed-tensors with 8 bits",
             method == "bitsandbytes" ? kByBitsAndBytes : "");
    }
  }
  return found;
}

}  // namespace dotresize
