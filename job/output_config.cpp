#include "job/output_config.h"

#include "job/checked_json.h"

namespace dotresize {
namespace {

using nlohmann::json;

json rotary_scaling(const RotaryConfig& rotary) {
  json scaling = {{"rope_type", rotary.type}};
  if (rotary.type == "llama3") {
    scaling["factor"] = rotary.factor;
    scaling["low_freq_factor"] = rotary.low_freq_factor;
    scaling["high_freq_factor"] = rotary.high_freq_factor;
    scaling["original_max_position_embeddings"] = rotary.original_max_position_embeddings;
  }
  return scaling;
}

void write_rotary(json& config, const RotaryConfig& rotary) {
  json parameters = rotary_scaling(rotary);
  parameters["rope_theta"] = rotary.theta;
  if (rotary.partial_factor != 1.0) {
    parameters["partial_rotary_factor"] = rotary.partial_factor;
    config["partial_rotary_factor"] = rotary.partial_factor;
  }
  config["rope_parameters"] = parameters;  // transformers 5
  config["rope_theta"] = rotary.theta;     // transformers 4
  config["rope_scaling"] = rotary.type == "default" ? json() : rotary_scaling(rotary);
}

}  // namespace

std::string output_config_json(const std::string& source_config_json, const ModelConfig& source,
                               const std::vector<int64_t>& junction_widths, Dtype output_dtype) {
  json config = parse_json_object(source_config_json, "config.json of the source");
  config["model_type"] = "dotresize";
  config["architectures"] = {"DotResizeForCausalLM"};
  config["auto_map"] = {{"AutoConfig", "configuration_dotresize.DotResizeConfig"},
                        {"AutoModel", "modeling_dotresize.DotResizeModel"},
                        {"AutoModelForCausalLM", "modeling_dotresize.DotResizeForCausalLM"}};
  config["source_model_type"] = source.family;
  config["junction_widths"] = junction_widths;
  config["tie_word_embeddings"] = false;
  config["head_dim"] = source.head_dim;
  config["num_key_value_heads"] = source.num_kv_heads;
  config["dtype"] = config["torch_dtype"] = to_string(output_dtype);
  write_rotary(config, source.rotary);
  return config.dump(2) + "\n";
}

}  // namespace dotresize
