#include "job/spec/validate_spec.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <sstream>

#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"

namespace dotresize {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr uint32_t kMaxRanks = 4096;
constexpr uint32_t kMaxTimeoutSeconds = 86400;
constexpr uint32_t kMaxSeqlen = 1u << 20;
constexpr uint32_t kMaxSamples = 1u << 24;
constexpr uint32_t kMaxWidth = 1u << 22;
constexpr double kMaxLambda = 1e6;
constexpr double kMaxSize = 1e3;
constexpr double kMaxSpeed = 1e3;
constexpr uint32_t kMaxEpochs = 100;
constexpr double kMaxLearningRate = 0.1;
constexpr int kMaxTextFiles = 10'000;
constexpr std::size_t kMaxPathBytes = 4095;
constexpr int kLongestName = 100;

/// Hint for a fraction that may have been meant in percent.
std::string percent_hint(double fraction) {
  if (fraction < 2.0 || fraction >= 100.0) return "";
  std::ostringstream text;
  text << "; did you mean " << fraction / 100.0 << "?";
  return text.str();
}

/// Returns the keys that say how large the output is to be.
std::vector<std::string> given_sizes(const v1::Method& method) {
  std::vector<std::string> given;
  if (method.has_size()) given.emplace_back("size");
  if (method.has_bytes()) given.emplace_back("bytes");
  if (method.has_speed()) given.emplace_back("speed");
  return given;
}

bool allocates(const v1::Method& method) { return method.allocate() == v1::Method::auto_; }

template <class Source>
bool has_source(const Source& given) {
  return given.text_size() > 0 || !given.tokens().empty();
}

class Validator {
 public:
  std::vector<FieldViolation> violations;

  void add(const std::string& field, const std::string& description) {
    violations.push_back({field, description});
  }

  template <class Number>
  void refuse(const std::string& field, Number value, const std::string& wanted) {
    std::ostringstream text;
    text << value << " is not " << wanted;
    add(field, text.str());
  }

  void check_range(const std::string& field, uint32_t value, uint32_t low, uint32_t high) {
    if (value < low || value > high) {
      refuse(field, value, "from " + std::to_string(low) + " to " + std::to_string(high));
    }
  }

  void check_name(const std::string& name) {
    if (display_width(name) > kLongestName) {
      add("name", "has " + std::to_string(display_width(name)) + " characters; at most " +
                      std::to_string(kLongestName) + " are allowed");
    } else if (!is_printable(name)) {
      add("name", in_quotes(name) + " has control characters");
    }
  }

  void check_target(const v1::Method& method) {
    if (allocates(method)) return;  // check_allocate() handles this case
    std::vector<std::string> given = given_sizes(method);
    if (method.has_width()) given.insert(given.begin(), "width");
    if (method.has_sparsity()) given.insert(given.begin(), "sparsity");
    if (given.size() == 1) return;
    if (given.empty()) {
      add("method.sparsity", "one of sparsity, width, size, bytes and speed must be given");
    } else {
      std::string names = given.front();
      for (std::size_t i = 1; i < given.size(); ++i) {
        names += (i + 1 == given.size() ? " and " : ", ") + given[i];
      }
      add("method." + given.front(), names + " are given: only one of them can be");
    }
  }

  void check_method(const v1::Method& method) {
    check_target(method);
    // Comparisons are negated so that they refuse NaN too.
    if (method.has_size() && !(method.size() > 0.0 && method.size() <= kMaxSize)) {
      refuse("method.size", method.size(), "above 0 and at most 1000");
    } else if (method.has_size() && method.size() >= 1.0 && !method.allow_larger()) {
      refuse(
          "method.size", method.size(),
          "below 1, as it must be without method.allow_larger: true" + percent_hint(method.size()));
    }
    if (method.has_bytes() && !parse_bytes(method.bytes())) {
      add("method.bytes", in_quotes(method.bytes()) + " is no number of bytes, as in 900MB");
    }
    if (method.has_speed() && !(method.speed() > 1.0 && method.speed() <= kMaxSpeed)) {
      refuse("method.speed", method.speed(), "above 1 and at most 1000");
    } else if (method.has_speed() && !allocates(method)) {
      add("method.speed",
          "goes with no other key of the method than round_to; give size in its place");
    }
    if (method.has_sparsity() && !(method.sparsity() >= 0.0 && method.sparsity() < 1.0)) {
      refuse("method.sparsity", method.sparsity(),
             "a fraction of the width: 0 or more, and below 1" + percent_hint(method.sparsity()));
    }
    if (method.has_width()) check_range("method.width", method.width(), 1, kMaxWidth);
    if (method.has_lambda() && !(method.lambda() > 0.0 && method.lambda() <= kMaxLambda)) {
      refuse("method.lambda", method.lambda(), "above 0 and at most 1e6");
    }
    check_range("method.round_to", method.round_to(), 0, kMaxWidth);
    if (method.metric() == v1::Method::fisher && method.name() == v1::Method::dotresize) {
      add("method.metric",
          "fisher does not go with dotresize, whose transport compares channels as they are: "
          "magnitude, slicegpt and pca_dotresize are available");
    }
  }

  void check_mlp(const v1::Method& method) {
    if (!method.has_mlp()) return;
    const v1::Mlp& mlp = method.mlp();
    if (mlp.has_sparsity() == mlp.has_width()) {
      add("method.mlp.sparsity", mlp.has_width()
                                     ? "sparsity and width are given: only one of them can be"
                                     : "one of sparsity and width must be given");
    }
    if (mlp.has_sparsity() && !(mlp.sparsity() >= 0.0 && mlp.sparsity() < 1.0)) {
      refuse("method.mlp.sparsity", mlp.sparsity(),
             "a fraction of the features: 0 or more, and below 1" + percent_hint(mlp.sparsity()));
    }
    if (mlp.has_width()) check_range("method.mlp.width", mlp.width(), 1, kMaxWidth);
  }

  /// Refuses keys that `allocate` decides itself, and those of maps.
  void check_allocate(const v1::Method& method) {
    if (!allocates(method)) return;
    const std::string key = "method.allocate";
    const auto refuse_with = [&](bool is_given, const std::string& other, const char* why) {
      if (is_given) add(key, "auto does not go with method." + other + ", " + why);
    };
    refuse_with(method.has_sparsity(), "sparsity", "which it chooses");
    refuse_with(method.has_width(), "width", "which it chooses");
    refuse_with(method.has_mlp(), "mlp", "which it chooses");
    const std::vector<std::string> sizes = given_sizes(method);
    const bool other = method.has_sparsity() || method.has_width();
    if (sizes.empty() && !other) add(key, "auto needs method.size, the bytes that it divides");
    if (sizes.size() > 1) add("method." + sizes[0], "goes without method." + sizes[1]);
    if (method.has_metric() && method.metric() != v1::Method::fisher) {
      add(key, "auto needs method.metric: fisher (or no metric), by which it predicts the loss");
    }
    const char* const no_maps = "because it makes no maps: it removes parts of MLPs and attentions";
    refuse_with(method.has_name(), "name", no_maps);
    refuse_with(method.has_lambda(), "lambda", no_maps);
    refuse_with(method.has_head(), "head", "because it makes no maps; a method.name with it does");
    refuse_with(method.on_nonconvergence() != v1::Method::fail, "on_nonconvergence", no_maps);
  }

  void check_format(const v1::JobSpec& spec) {
    const v1::Method& method = spec.method();
    if (spec.output().format() == v1::Output::stock && method.has_head() &&
        method.head() == v1::Method::dense) {
      add("method.head",
          "dense does not go with output.format: stock, whose one map narrows the head too "
          "(sliced)");
    }
  }

  void check_activations(const v1::JobSpec& spec) {
    if (spec.calibration().activations() != v1::Calibration::compressed) return;
    const auto refuse_with = [&](const std::string& what) {
      add("calibration.activations",
          "compressed does not go with " + what + "; original and auto are available");
    };
    if (spec.output().format() == v1::Output::stock) {
      refuse_with("output.format: stock, which sums over all junctions of the dense model");
    } else if (allocates(spec.method())) {
      refuse_with("method.allocate: auto, which predicts from the dense model's activations");
    } else if (spec.method().metric() == v1::Method::fisher) {
      refuse_with("method.metric: fisher, whose gradients are the dense model's");
    } else if (spec.calibration().has_statistics()) {
      refuse_with("calibration.statistics, which are the dense model's");
    }
  }

  void check_statistics(const v1::JobSpec& spec) {
    const v1::Calibration& calibration = spec.calibration();
    if (!calibration.has_statistics()) return;
    if (spec.method().has_mlp()) {
      add("calibration.statistics",
          "are those of the dense model, and method.mlp changes it before the maps are made");
    }
    const v1::Statistics& statistics = calibration.statistics();
    if (statistics.save().empty() == statistics.use().empty()) {
      add("calibration.statistics", statistics.save().empty()
                                        ? "one of save and use must be given"
                                        : "save and use are given: only one of them can be");
    }
  }

  template <class Source>
  void check_source(const std::string& section, const Source& source) {
    if (source.text_size() > 0 && !source.tokens().empty()) {
      add(section + ".text", "text and tokens are given: only one of them can be");
    }
    if (source.text_size() > kMaxTextFiles) {
      refuse(section + ".text", source.text_size(),
             "a number of files up to " + std::to_string(kMaxTextFiles));
    }
    if (source.has_seqlen()) check_range(section + ".seqlen", source.seqlen(), 2, kMaxSeqlen);
    if (source.has_samples()) check_range(section + ".samples", source.samples(), 1, kMaxSamples);
  }

  void check_sources(const v1::JobSpec& spec) {
    check_source("calibration", spec.calibration());
    if (!has_source(spec.calibration())) {
      add("calibration.text", "one of text and tokens must be given");
    }
    if (!spec.has_evaluation()) return;
    check_source("evaluation", spec.evaluation());
    if (!has_source(spec.evaluation()) && spec.heal().has_samples()) {
      add("heal.samples",
          "needs evaluation.text or tokens: windows that the calibration does not use may be among "
          "those that heal");
    }
    if (!has_source(spec.evaluation()) && spec.evaluation().has_seqlen()) {
      add("evaluation.seqlen",
          "needs evaluation.text or tokens: windows that the calibration does not use have its "
          "seqlen");
    }
  }

  void check_resources(const v1::Resources& resources) {
    if (resources.has_ranks()) check_range("resources.ranks", resources.ranks(), 1, kMaxRanks);
    if (resources.has_timeout_s()) {
      check_range("resources.timeout_s", resources.timeout_s(), 1, kMaxTimeoutSeconds);
    }
    if (resources.has_launcher() && !is_launcher_name(resources.launcher())) {
      add("resources.launcher", in_quotes(resources.launcher()) +
                                    " is not a launcher's name: a lower-case letter, then at "
                                    "most 30 lower-case letters, digits and hyphens");
    }
    const auto check_bytes = [&](const std::string& key, const std::string& text) {
      if (!parse_bytes(text)) {
        add(key, in_quotes(text) + " is not an amount of memory, such as 24GiB");
      }
    };
    if (resources.has_memory()) check_bytes("resources.memory", resources.memory());
    if (resources.has_device_memory()) {
      check_bytes("resources.device_memory", resources.device_memory());
    }
  }

  void check_paths(v1::JobSpec spec) {
    if (spec.model().path().empty()) add("model.path", "is required: the model's directory");
    if (spec.output().path().empty()) add("output.path", "is required: the directory to make");
    for (const SpecPath& path : paths_of(spec)) {
      check_path(path.key, *path.value);
    }
    check_name_of_place("model.origin", spec.model().origin());
    check_name_of_place("output.destination", spec.output().destination());
    if (spec.model().path().empty() || spec.output().path().empty()) return;
    if (is_remote(spec.model().path()) != is_remote(spec.output().path())) return;
    const auto comparable = [](const std::string& path) -> std::filesystem::path {
      if (is_remote(path)) return without_revision(path);
      return absolute_path(path, "").lexically_normal();
    };
    const auto model = comparable(spec.model().path());
    const auto output = comparable(spec.output().path());
    if (is_within(output, model) || is_within(model, output)) {
      add("output.path", in_quotes(output.string()) + " and model.path, " +
                             in_quotes(model.string()) + ", must not contain each other");
    }
  }

  bool check_name_of_place(const std::string& key, const std::string& name) {
    if (name.size() > kMaxPathBytes) {
      add(key, "is longer than " + std::to_string(kMaxPathBytes) + " bytes");
    } else if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
      add(key, in_quotes(name) + " has control characters");
    } else {
      return true;
    }
    return false;
  }

  void check_path(const std::string& key, const std::string& path) {
    if (path.empty()) {
      if (key.ends_with(".text")) add(key, "a file name in the list is empty");
      return;
    }
    if (!check_name_of_place(key, path)) return;
    const std::string fault = is_remote(path) ? remote_fault(key, path) : absolute_fault(path);
    if (!fault.empty()) add(key, fault);
  }

  /// Refuses unknown fields, which proto3 keeps but this version would ignore.
  void check_unknown(const Message& message, const std::string& path) {
    const auto& unknown = message.GetReflection()->GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      add(path, "has a field that this version does not know, number " +
                    std::to_string(unknown.field(i).number()));
    }
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      check_unknown(message.GetReflection()->GetMessage(message, field),
                    path + "." + field->name());
    }
  }

  /// Refuses unknown enum numbers, which proto3 keeps.
  void check_enums(const Message& message, const std::string& prefix) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->is_repeated()) continue;  // repeated fields are strings
      const std::string key = prefix + field->name();
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        check_enums(message.GetReflection()->GetMessage(message, field), key + ".");
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        const int number = message.GetReflection()->GetEnumValue(message, field);
        if (field->enum_type()->FindValueByNumber(number) == nullptr) {
          refuse(key, number, "a number of " + field->enum_type()->full_name());
        }
      }
    }
  }
};

}  // namespace

bool asks_for_size(const v1::Method& method) { return !given_sizes(method).empty(); }

void complete_method(v1::Method& method) {
  if (!method.has_allocate()) {
    v1::Method other = method;
    other.clear_size();
    other.clear_bytes();
    other.clear_speed();
    other.clear_head();
    other.clear_round_to();
    other.clear_allow_larger();
    const bool size_alone = asks_for_size(method) && other.ByteSizeLong() == 0;
    method.set_allocate(size_alone ? v1::Method::auto_ : v1::Method::off);
  }
  if (!method.has_name() && !allocates(method)) method.set_name(v1::Method::pca_dotresize);
}

std::string name_of(const v1::JobSpec& spec) {
  if (!spec.name().empty()) return spec.name();
  const v1::Output& output = spec.output();
  const std::string& place = output.destination().empty() ? output.path() : output.destination();
  std::filesystem::path path = std::filesystem::path(without_revision(place)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // trailing slash
  // A byte takes at most one column.
  const std::string name =
      printable(path.filename().string(), static_cast<std::size_t>(kLongestName));
  return name.empty() || name == "." || name == ".." ? "job" : name;
}

int ranks_of(const v1::JobSpec& spec) {
  return spec.resources().has_ranks() ? static_cast<int>(spec.resources().ranks()) : 1;
}

std::vector<FieldViolation> validate_spec(const v1::JobSpec& given) {
  Validator validator;
  v1::JobSpec spec = given;
  complete_method(*spec.mutable_method());
  validator.check_name(spec.name());
  validator.check_paths(spec);
  validator.check_method(spec.method());
  validator.check_mlp(spec.method());
  validator.check_allocate(spec.method());
  validator.check_format(spec);
  validator.check_activations(spec);
  validator.check_sources(spec);
  validator.check_statistics(spec);
  validator.check_resources(spec.resources());
  const v1::Heal& heal = spec.heal();
  if (heal.has_samples()) validator.check_range("heal.samples", heal.samples(), 1, kMaxSamples);
  if (heal.has_epochs()) validator.check_range("heal.epochs", heal.epochs(), 0, kMaxEpochs);
  const double rate = heal.learning_rate();
  if (heal.has_learning_rate() && !(rate > 0.0 && rate <= kMaxLearningRate)) {
    validator.refuse("heal.learning_rate", rate, "above 0 and at most 0.1");
  }
  validator.check_enums(spec, "");
  validator.check_unknown(spec, "spec");
  return validator.violations;
}

std::string absolute_fault(const std::string& path) {
  if (std::filesystem::path(path).is_absolute()) return "";
  return in_quotes(path) + " is not an absolute path" +
         (path.starts_with("~") ? "; ~ is not expanded here" : "");
}

bool is_launcher_name(std::string_view name) {
  constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-";
  constexpr size_t kMaxBytes = 31;
  return !name.empty() && name.size() <= kMaxBytes && name.front() >= 'a' && name.front() <= 'z' &&
         name.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

std::vector<FieldViolation> unknown_fields(const v1::JobSpec& spec) {
  Validator validator;
  validator.check_unknown(spec, "spec");
  return validator.violations;
}

}  // namespace dotresize
