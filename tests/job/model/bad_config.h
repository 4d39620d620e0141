#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/job/model/test_configs.h"

namespace dotresize {

/// A config.json that is refused. Files beside bad_config_test.cpp have rows of them, one subject
/// each.
struct BadConfig {
  std::string name;
  std::string text;
  std::string message;  ///< part of the error message
};

inline void PrintTo(const BadConfig& config, std::ostream* out) { *out << config.name; }

inline std::string case_name_of(const testing::TestParamInfo<BadConfig>& info) {
  return info.param.name;
}

class BadConfigs : public testing::TestWithParam<BadConfig> {};

/// Returns the config with these members in place of its own of the same keys.
inline std::string put(const std::string& config, const std::string& members) {
  nlohmann::json changed = nlohmann::json::parse(config);
  changed.update(nlohmann::json::parse("{" + members + "}"));
  return changed.dump();
}

inline std::string without(const std::string& config, const std::string& key) {
  nlohmann::json changed = nlohmann::json::parse(config);
  if (changed.erase(key) == 0) throw std::invalid_argument("not in the config: " + key);
  return changed.dump();
}

}  // namespace dotresize
