#include "job/model/config_fields.h"

#include <sstream>
#include <utility>

#include "base/errors.h"

namespace dotresize {
namespace {

using nlohmann::json;

std::string quoted(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

}  // namespace

ConfigFields::ConfigFields(const json& object, std::string origin, std::string prefix)
    : object_(object),
      origin_(std::move(origin)),
      prefix_(std::move(prefix)),
      read_(std::make_shared<std::set<std::string>>()) {}

ConfigFields::ConfigFields(const json& object, const ConfigFields& outer, const std::string& key)
    : object_(object),
      origin_(outer.origin_),
      prefix_(outer.prefix_ + key + "."),
      read_(outer.read_) {}

bool ConfigFields::has(const std::string& key) const { return !raw(key).is_null(); }

bool ConfigFields::contains(const std::string& key) const {
  read_->insert(prefix_ + key);
  return object_.contains(key);
}

void ConfigFields::note(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) read_->insert(prefix_ + key);
}

std::set<std::string> ConfigFields::read_keys() const {
  std::set<std::string> keys;
  for (const std::string& key : *read_) {
    if (key.starts_with(prefix_)) keys.insert(key.substr(prefix_.size()));
  }
  return keys;
}

std::vector<std::string> ConfigFields::unread() const {
  std::vector<std::string> unread;
  const std::set<std::string> read = read_keys();
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null()) continue;
    if (!read.contains(key)) {
      unread.push_back(key);
      continue;
    }
    // An object of which no key was read is a value as a whole.
    const auto first = read.lower_bound(key + ".");
    if (!value.is_object() || first == read.end() || !first->starts_with(key + ".")) continue;
    for (const auto& inner : value.items()) {
      const std::string name = key + "." + inner.key();
      if (!inner.value().is_null() && !read.contains(name)) unread.push_back(name);
    }
  }
  return unread;
}

void ConfigFields::refuse_null(const std::string& key) const {
  if (!contains(key) || has(key)) return;
  fail(key, "is null, with which transformers cannot compute; remove the key, or give it a value");
}

const json& ConfigFields::raw(const std::string& key) const {
  static const json absent;
  read_->insert(prefix_ + key);
  const auto found = object_.find(key);
  return found == object_.end() ? absent : *found;
}

std::optional<int64_t> ConfigFields::integer(const std::string& key, int64_t low,
                                             int64_t high) const {
  if (!has(key)) return std::nullopt;
  return required_integer(key, low, high);
}

int64_t ConfigFields::integer_or(const std::string& key, std::optional<int64_t> otherwise,
                                 int64_t high) const {
  return otherwise && !contains(key) ? *otherwise : required_integer(key, 1, high);
}

int64_t ConfigFields::required_integer(const std::string& key, int64_t low, int64_t high) const {
  return required_integer(key, raw(key), low, high);
}

int64_t ConfigFields::required_integer(const std::string& key, const json& value, int64_t low,
                                       int64_t high) const {
  if (value.is_null()) fail(key, "is missing");
  // get<int64_t>() would wrap numbers from 2^63 on.
  const bool wraps =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (!value.is_number_integer() || wraps || value.get<int64_t>() < low ||
      value.get<int64_t>() > high) {
    fail(key, quoted(value) + " is not a whole number from " + std::to_string(low) + " to " +
                  std::to_string(high));
  }
  return value.get<int64_t>();
}

std::optional<double> ConfigFields::number(const std::string& key, double low, double high) const {
  const json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    std::ostringstream range;
    range << low << " to " << high;
    fail(key, "is not a number from " + range.str());
  }
  return value.get<double>();
}

std::optional<double> ConfigFields::positive(const std::string& key, double high) const {
  const json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number() || !(value.get<double>() > 0.0 && value.get<double>() <= high)) {
    fail(key, quoted(value) + " is not a number above 0, at most " + json(high).dump());
  }
  return value.get<double>();
}

double ConfigFields::required_positive(const std::string& key, double high) const {
  if (!has(key)) fail(key, "is missing");
  return *positive(key, high);
}

std::vector<double> ConfigFields::required_positives(const std::string& key, int64_t count,
                                                     double high) const {
  const json& values = raw(key);
  if (values.is_null()) fail(key, "is missing");
  if (!values.is_array() || std::ssize(values) != count) {
    fail(key, "must be a list of " + std::to_string(count) + " numbers" +
                  (values.is_array() ? ", not of " + std::to_string(values.size()) : ""));
  }
  std::vector<double> numbers;
  for (const json& value : values) {
    const json entry = {{key, value}};
    numbers.push_back(ConfigFields(entry, origin_, prefix_).required_positive(key, high));
  }
  return numbers;
}

bool ConfigFields::boolean(const std::string& key, bool otherwise) const {
  const json& value = raw(key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail(key, quoted(value) + " is neither true nor false");
  return value.get<bool>();
}

std::optional<std::string> ConfigFields::text(const std::string& key) const {
  const json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) fail(key, quoted(value) + " is not a text");
  return value.get<std::string>();
}

std::optional<ConfigFields> ConfigFields::object(const std::string& key) const {
  const json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_object()) fail(key, quoted(value) + " is not an object");
  return ConfigFields(value, *this, key);
}

void ConfigFields::fail(const std::string& key, const std::string& what) const {
  throw InputError(origin_ + ": " + prefix_ + key + ": " + what);
}

}  // namespace dotresize
