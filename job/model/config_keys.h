#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "job/model/config_fields.h"

namespace dotresize {

/// Returns sentences on the keys of a config.json that reading has not looked at and that are not
/// known to be without effect on a model's predictions.
std::vector<std::string> warnings_about_keys(const ConfigFields& fields, const std::string& family);

/// Returns the keys that have been looked at so far and that an output of the model needs: the
/// settings of its family.
std::set<std::string> known_settings(const ConfigFields& fields);

/// Returns those keys of a source's config.json that an output keeps: its `settings`, and ones
/// without effect whose values are of a known kind. All others, code that transformers would load
/// among them, are left out.
nlohmann::json kept_config(const nlohmann::json& source, const std::set<std::string>& settings);

/// Returns the keys of a wrapper's config.json that an output keeps: all but those that name code
/// or files to be loaded, in nested objects too.
nlohmann::json kept_wrapper_config(const nlohmann::json& source);

/// The same as kept_config for a generation_config.json: only numbers, lists of numbers and truth
/// values.
nlohmann::json kept_generation_config(const nlohmann::json& source);

/// The same for a tokenizer_config.json. `processor`: it belongs to a wrapper, and keeps the name
/// of the class that reads its images.
nlohmann::json kept_tokenizer_config(const nlohmann::json& source, bool processor);

}  // namespace dotresize
