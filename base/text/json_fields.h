#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace dotresize {

// Helpers for fields of a JSON object that are absent if there is no value.

template <class Value>
void set_if(nlohmann::json& object, const char* key, const std::optional<Value>& value) {
  if (value) object[key] = *value;
}

template <class Value>
void get_if(const nlohmann::json& object, const char* key, std::optional<Value>& value) {
  if (object.contains(key) && !object.at(key).is_null()) value = object.at(key).get<Value>();
}

}  // namespace dotresize
