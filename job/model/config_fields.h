#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dotresize {

// Upper limits, larger than those of any existing model.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxPositions = int64_t{1} << 31;

/// Typed, bounded access to the keys of one JSON object. A null counts as absent, unless stated
/// otherwise. Notes which keys are looked at, those of nested objects too. Errors are InputError
/// "ORIGIN: KEY: what is wrong and what would be right".
class ConfigFields {
 public:
  /// `prefix` is the path of the object inside the file, such as "rope_scaling.", or empty.
  ConfigFields(const nlohmann::json& object, std::string origin, std::string prefix = "");

  /// Returns true if the key is present and not null.
  bool has(const std::string& key) const;
  /// Returns true if the key is present, perhaps as null.
  bool contains(const std::string& key) const;
  /// Throws for a key that is null: transformers takes that for the value itself, and cannot
  /// compute with it.
  void refuse_null(const std::string& key) const;
  /// Returns the JSON value itself; null if it is absent.
  const nlohmann::json& raw(const std::string& key) const;

  /// Returns a whole number in [low, high].
  std::optional<int64_t> integer(const std::string& key, int64_t low, int64_t high) const;
  int64_t required_integer(const std::string& key, int64_t low, int64_t high) const;
  /// Returns a whole number in [1, high], or `otherwise` if the key is absent. Throws if there is
  /// neither, and for a null.
  int64_t integer_or(const std::string& key, std::optional<int64_t> otherwise, int64_t high) const;
  /// Overload for `value`, an entry of the list under `key`.
  int64_t required_integer(const std::string& key, const nlohmann::json& value, int64_t low,
                           int64_t high) const;
  /// Returns a number in [low, high].
  std::optional<double> number(const std::string& key, double low, double high) const;
  /// Returns a number in (0, high].
  std::optional<double> positive(const std::string& key, double high) const;
  double required_positive(const std::string& key, double high) const;
  /// Returns a list of `count` numbers in (0, high].
  std::vector<double> required_positives(const std::string& key, int64_t count, double high) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::optional<std::string> text(const std::string& key) const;
  /// Returns the object under `key`. Throws if the value is not an object.
  std::optional<ConfigFields> object(const std::string& key) const;

  /// Notes keys that a family has, although this model's other settings leave them without effect.
  void note(std::initializer_list<const char*> keys) const;
  /// Returns the keys of this object, other than null, that nobody has looked at, and those of
  /// objects in it with their path from here.
  std::vector<std::string> unread() const;

  /// Returns the keys of this object that somebody has looked at, whether or not it has them, and
  /// those of objects in it with their path from here.
  std::set<std::string> read_keys() const;

  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  ConfigFields(const nlohmann::json& object, const ConfigFields& outer, const std::string& key);

  const nlohmann::json& object_;
  std::string origin_;
  std::string prefix_;
  std::shared_ptr<std::set<std::string>> read_;  ///< with prefixes; shared with nested objects
};

}  // namespace dotresize
