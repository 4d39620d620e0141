#include "job/spec/sweep_file.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "base/process/work_budget.h"
#include "base/text/encodings.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "job/spec/yaml_file.h"

namespace dotresize {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kKeep[] = "keep";
constexpr char kStatistics[] = "calibration.statistics";
constexpr std::size_t kMaxAxes = 64;  // more than a job has keys
constexpr std::size_t kMaxVariants = 4096;
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  // total for the specs of all variants
constexpr std::size_t kMaxViolations = 20;                // per variant

int line_at(const YAML::Node& node) { return node.Mark().is_null() ? 1 : node.Mark().line + 1; }

/// Reads the section `sweep` and collects its faults.
class SweepReader {
 public:
  SweepReader(const std::filesystem::path& base_dir, SweepFile& sweep)
      : base_dir_(base_dir), sweep_(sweep) {}

  void read(const YAML::Node& section);
  std::vector<Fault> faults;
  std::map<std::string, int> lines;  ///< lines of the section's keys

 private:
  void fault(const YAML::Node& at, const std::string& key, const std::string& what) {
    faults.push_back(
        {line_at(at), std::string(kSweepSection) + (key.empty() ? "" : "." + key), what});
  }
  void read_keep(const YAML::Node& node);
  void read_axis(const YAML::Node& name, const YAML::Node& values);
  bool can_be_varied(const YAML::Node& name, const std::string& key);
  std::vector<std::string> range(const std::string& key, const YAML::Node& node);
  /// Returns false if the axis has the value already. The remaining values may be duplicates too.
  bool add_value(SweepAxis& axis, const YAML::Node& node, int line);

  const std::filesystem::path& base_dir_;
  SweepFile& sweep_;
};

void SweepReader::read(const YAML::Node& section) {
  if (!section.IsMap()) {
    return fault(section, "", "must be a section of keys to vary, as in method.lambda: [0.1, 1]");
  }
  int keeps = 0;
  for (const auto& entry : section) {
    if (sweep_.axes.size() > kMaxAxes) {
      return fault(section, "", fmt::format("varies more than {} keys", kMaxAxes));
    }
    if (entry.first.IsScalar()) {
      lines[std::string(kSweepSection) + "." + entry.first.Scalar()] = line_at(entry.first);
    }
    if (entry.first.IsScalar() && entry.first.Scalar() == kKeep) {
      if (++keeps > 1) fault(entry.first, kKeep, "is given twice");
      read_keep(entry.second);
    } else {
      read_axis(entry.first, entry.second);
    }
  }
  if (sweep_.axes.empty() && faults.empty()) fault(section, "", "varies no key");
  std::size_t count = 1;
  for (const SweepAxis& axis : sweep_.axes) {
    count *= std::max<std::size_t>(1, axis.values.size());
    if (count <= kMaxVariants) continue;
    return fault(section, "", fmt::format("has more than {} combinations", kMaxVariants));
  }
}

void SweepReader::read_keep(const YAML::Node& node) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (text == "best" || text == "all" || text == "none") {
    sweep_.keep = text == "best"  ? KeptModels::kBest
                  : text == "all" ? KeptModels::kAll
                                  : KeptModels::kNone;
  } else {
    fault(node, kKeep, in_quotes(text) + " is not one of best, all, none");
  }
}

bool SweepReader::can_be_varied(const YAML::Node& name, const std::string& key) {
  if (!key.starts_with("method.") && !key.starts_with("calibration.")) {
    fault(name, printable(key),
          "only keys of method and calibration can be varied, such as method.lambda; keep says "
          "which models stay");
    return false;
  }
  if (key == kStatistics || key.starts_with(std::string(kStatistics) + ".")) {
    fault(name, key, "a sweep keeps statistics by itself");
    return false;
  }
  for (const SweepAxis& other : sweep_.axes) {
    if (other.key == key) {
      fault(name, printable(key), "is given twice");
      return false;
    }
    if (exclude_each_other(other.key, key)) {
      fault(name, printable(key), "does not go with " + other.key + ": a job has one of them");
      return false;
    }
  }
  return true;
}

void SweepReader::read_axis(const YAML::Node& name, const YAML::Node& values) {
  if (!name.IsScalar()) return fault(name, "?", "a key must be a word");
  SweepAxis axis{name.Scalar(), {}};
  if (!can_be_varied(name, axis.key)) return;
  const std::size_t before = faults.size();
  if (values.IsSequence()) {
    if (values.size() > kMaxVariants) {
      return fault(values, printable(axis.key),
                   fmt::format("has {} values, more than {}", values.size(), kMaxVariants));
    }
    for (const YAML::Node& value : values) {
      const bool is_new = add_value(axis, value, line_at(value));
      if (!is_new || faults.size() > before + kMaxViolations) return;
    }
  } else if (values.IsMap()) {
    for (const std::string& text : range(axis.key, values)) {
      if (!add_value(axis, YAML::Load(text), line_at(values))) return;
    }
  } else {
    return fault(values, printable(axis.key),
                 "must be a list of values, or a range {from: A, to: B, steps: N}");
  }
  if (axis.values.empty() && faults.size() == before) {
    return fault(name, printable(axis.key), "has no values");
  }
  sweep_.axes.push_back(std::move(axis));
}

/// Returns the `steps` values of a range {from, to, steps[, scale: linear | log]}, both ends
/// included.
std::vector<std::string> SweepReader::range(const std::string& key, const YAML::Node& node) {
  std::set<std::string> left = {"from", "to", "steps", "scale"};
  for (const auto& entry : node) {
    if (entry.first.IsScalar() && left.erase(entry.first.Scalar()) == 1) continue;
    fault(entry.first, printable(key), "a range has the keys from, to, steps, scale, once each");
    return {};
  }
  const auto number_of = [&](const char* name) -> std::optional<double> {
    const YAML::Node given = node[name];
    if (given && given.IsScalar()) {
      const auto value = parse_number<double>(given.Scalar());
      if (value && std::isfinite(*value)) return value;
    }
    fault(node, printable(key), std::string("the range needs ") + name + ", a finite number");
    return std::nullopt;
  };
  const auto from = number_of("from");
  const auto to = number_of("to");
  const auto steps = number_of("steps");
  if (!from || !to || !steps) return {};
  const std::string scale = node["scale"] ? node["scale"].Scalar() : "linear";
  if (*steps != std::floor(*steps) || *steps < 2.0 || *steps > 1000.0) {
    fault(node, printable(key), "steps must be a whole number from 2 to 1000");
    return {};
  }
  if (scale != "linear" && scale != "log") {
    fault(node, printable(key), "scale must be linear or log");
    return {};
  }
  if (scale == "log" && !(*from > 0.0 && *to > 0.0)) {
    fault(node, printable(key), "a range of scale log must be above 0");
    return {};
  }
  std::vector<std::string> values;
  for (int i = 0; i < static_cast<int>(*steps); ++i) {
    const double share = i / (*steps - 1.0);
    const double value =
        scale == "log" ? *from * std::pow(*to / *from, share) : *from + share * (*to - *from);
    values.push_back(fmt::format("{:.10g}", value));  // shortest form: 0.7, not 0.7000000000000001
  }
  return values;
}

bool SweepReader::add_value(SweepAxis& axis, const YAML::Node& node, int line) {
  SweepAxis::Value value;
  value.line = line;
  if (node.IsScalar()) {
    value.text = printable(node.Scalar());
  } else {
    YAML::Emitter out;
    out << YAML::Flow << node;
    value.text = printable(out.c_str());
  }
  const auto same = [&](const SweepAxis::Value& other) { return other.text == value.text; };
  YamlMessageReader reader;
  reader.read(nested(axis.key, node), value.spec);
  const auto refuse = [&](const std::string& key, const std::string& what) {
    faults.push_back({line, std::string(kSweepSection) + "." + key, what});
  };
  if (!reader.faults.empty()) {
    for (const Fault& found : reader.faults) refuse(found.key, found.what);
  } else if (node.IsNull()) {
    refuse(axis.key, "a value is missing");
  } else if (std::ranges::any_of(axis.values, same)) {
    refuse(axis.key, in_quotes(value.text) + " is given twice");
    return false;
  } else {
    make_absolute(value.spec, base_dir_);
    axis.values.push_back(std::move(value));
  }
  return true;
}

/// Limits the total size: all variants are held in memory together.
void check_size(const SweepFile& sweep, std::vector<Fault>& faults) {
  std::size_t variants = 1;
  std::size_t bytes = sweep.base.spec.ByteSizeLong();
  for (const SweepAxis& axis : sweep.axes) {
    variants *= axis.values.size();
    std::size_t most = 0;
    for (const SweepAxis::Value& value : axis.values) {
      most = std::max(most, value.spec.ByteSizeLong());
    }
    bytes += most;
  }
  if (variants * bytes <= kMaxBytes) return;
  faults.push_back({1, kSweepSection,
                    fmt::format("has {} combinations of {} each, more than {} together", variants,
                                human_bytes(static_cast<int64_t>(bytes)),
                                human_bytes(static_cast<int64_t>(kMaxBytes)))});
}

/// Refuses options that a single job may have but a sweep's job may not.
void check_base(const SweepFile& sweep, std::vector<Fault>& faults) {
  const JobFile& base = sweep.base;
  const auto fault = [&](const std::string& key, const std::string& what) {
    faults.push_back({line_of(base.lines, key), key, what, base.place_of(key)});
  };
  for (const auto& changed : base.changed) {
    const std::string& key = changed.first;
    const auto varied = std::ranges::find_if(
        sweep.axes, [&](const SweepAxis& axis) { return exclude_each_other(axis.key, key); });
    if (varied != sweep.axes.end()) fault(key, "has no effect: the sweep varies " + varied->key);
  }
  if (base.spec.calibration().has_statistics()) {
    fault(kStatistics, "a sweep keeps statistics by itself");
  }
  if (base.spec.output().overwrite()) {
    fault("output.overwrite", "has no use in a sweep, which continues in its directory");
  }
  if (!base.spec.has_evaluation()) {
    fault("evaluation", "is required: a sweep compares perplexities");
  }
}

/// Finds faults of the file: violations that all variants have, or that all variants with one value
/// of the violated key have.
void find_common_faults(const SweepFile& sweep, std::vector<Fault>& faults) {
  const std::vector<SweepVariant> variants = variants_of(sweep);
  const auto all_have = [&](const FieldViolation& violation, const auto& belongs) {
    return std::ranges::all_of(variants, [&](const SweepVariant& variant) {
      return !belongs(variant) ||
             std::ranges::any_of(variant.violations, [&](const FieldViolation& each) {
               return each.field == violation.field && each.description == violation.description;
             });
    });
  };
  std::set<std::pair<std::string, std::string>> told;
  for (const SweepVariant& variant : variants) {
    for (const FieldViolation& violation : variant.violations) {
      if (told.contains({violation.field, violation.description})) continue;
      std::optional<Fault> fault;
      for (std::size_t i = 0; i < sweep.axes.size() && !fault; ++i) {
        const std::string& text = variant.values[i];
        const auto has_value = [&](const SweepVariant& each) { return each.values[i] == text; };
        if (sweep.axes[i].key != violation.field || !all_have(violation, has_value)) continue;
        const auto value = std::ranges::find(sweep.axes[i].values, text, &SweepAxis::Value::text);
        fault = {value->line, violation.field, violation.description};
      }
      if (!fault && all_have(violation, [](const SweepVariant&) { return true; })) {
        fault = {line_of(sweep.base.lines, violation.field), violation.field, violation.description,
                 sweep.base.place_of(violation.field)};
      }
      if (!fault) continue;
      told.insert({violation.field, violation.description});
      faults.push_back(*fault);
    }
  }
}

/// Refuses remote paths: a sweep's jobs read files of one machine.
void refuse_remote_paths(const SweepFile& sweep, std::vector<Fault>& faults) {
  const auto check = [&](v1::JobSpec spec, int line) {
    for (const SpecPath& path : paths_of(spec)) {
      if (!is_remote(*path.value)) continue;
      faults.push_back({line > 0 ? line : line_of(sweep.base.lines, path.key), path.key,
                        in_quotes(*path.value) + " must be on this machine: a sweep fetches and "
                                                 "pushes nothing",
                        ""});
    }
  };
  check(sweep.base.spec, 0);
  for (const SweepAxis& axis : sweep.axes) {
    for (const SweepAxis::Value& value : axis.values) check(value.spec, value.line);
  }
}

std::string text_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// Returns the value in its job's JSON form. If that leaves it out as a default, returns it as
/// written.
OrderedJson json_of(const std::string& key, const SweepAxis::Value& value) {
  OrderedJson at = OrderedJson::parse(job_spec_to_json(value.spec));
  std::istringstream parts(key);
  for (std::string part; std::getline(parts, part, '.');) {
    if (!at.contains(part)) {
      if (value.text == "true" || value.text == "false") return value.text == "true";
      if (const auto number = parse_number<double>(value.text)) return *number;
      return value.text;
    }
    at = OrderedJson(at.at(part));
  }
  return at;
}

}  // namespace

SweepFile parse_sweep(const std::string& text, const std::string& origin,
                      const std::filesystem::path& base_dir,
                      const std::vector<std::string>& changes) {
  SweepFile sweep;
  sweep.base.origin = origin;
  YAML::Node root = load_yaml(text, origin);
  SweepReader sweep_reader(base_dir, sweep);
  std::vector<Fault> faults;
  const YAML::Node section = root[kSweepSection];
  if (!section) {
    throw_faults(origin, {{1, kSweepSection,
                           "is missing, the section of keys to vary: `dotresize run " + origin +
                               "` runs a job"}});
  }
  int sections = 0;
  for (const auto& entry : root) {
    if (!entry.first.IsScalar() || entry.first.Scalar() != kSweepSection) continue;
    sweep_reader.lines[kSweepSection] = line_at(entry.first);
    if (++sections < 2) continue;
    throw_faults(origin, {{line_at(entry.first), kSweepSection, "is given twice"}});
  }
  sweep_reader.read(section);
  faults = std::move(sweep_reader.faults);
  root.remove(kSweepSection);
  YamlMessageReader reader;
  reader.read(root, sweep.base.spec);
  sweep.base.lines = reader.lines;
  sweep.base.lines.merge(sweep_reader.lines);
  faults.insert(faults.end(), reader.faults.begin(), reader.faults.end());
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  make_absolute(sweep.base.spec, base_dir);
  sweep.base.changed = apply_changes(changes, sweep.base.spec);
  sweep.base.spec.set_name(name_of(sweep.base.spec));
  refuse_remote_paths(sweep, faults);
  check_base(sweep, faults);
  check_size(sweep, faults);
  if (faults.empty()) find_common_faults(sweep, faults);
  if (!faults.empty()) throw_faults(origin, std::move(faults));
  return sweep;
}

bool is_sweep_file(const std::filesystem::path& path) {
  const YAML::Node root = load_yaml(read_whole_file(path, kMaxJobFileBytes), path.string());
  return root[kSweepSection].IsDefined();
}

SweepFile open_sweep_file(const std::filesystem::path& path,
                          const std::vector<std::string>& changes) {
  return parse_sweep(read_whole_file(path, kMaxJobFileBytes), path.string(), path.parent_path(),
                     changes);
}

std::vector<SweepVariant> variants_of(const SweepFile& sweep) {
  std::vector<SweepVariant> variants = {{{}, sweep.base.spec, {}}};
  for (const SweepAxis& axis : sweep.axes) {
    std::vector<SweepVariant> longer;
    for (const SweepVariant& variant : variants) {
      for (const SweepAxis::Value& value : axis.values) {
        WorkBudget::check();
        WorkBudget::take(variant.spec.SpaceUsedLong());
        SweepVariant& next = longer.emplace_back(variant);
        next.values.push_back(value.text);
        set_key(axis.key, value.spec, next.spec);
      }
    }
    variants = std::move(longer);
  }
  for (SweepVariant& variant : variants) {
    WorkBudget::check();
    variant.violations = validate_spec(variant.spec);
    if (variant.violations.size() > kMaxViolations) variant.violations.resize(kMaxViolations);
  }
  return variants;
}

v1::SweepSpec sweep_spec_of(const SweepFile& sweep) {
  v1::SweepSpec spec;
  for (const SweepAxis& axis : sweep.axes) {
    OrderedJson values = OrderedJson::array();
    for (const SweepAxis::Value& value : axis.values) values.push_back(json_of(axis.key, value));
    v1::SweepSpec::Axis& message = *spec.add_axes();
    message.set_key(axis.key);
    const auto status =
        google::protobuf::util::JsonStringToMessage(text_of(values), message.mutable_values());
    if (!status.ok()) throw std::logic_error("an axis has no message: " + status.ToString());
  }
  spec.set_keep(sweep.keep == KeptModels::kBest  ? v1::SweepSpec::best
                : sweep.keep == KeptModels::kAll ? v1::SweepSpec::all
                                                 : v1::SweepSpec::none);
  return spec;
}

std::string sweep_to_json(const v1::JobSpec& spec, const v1::SweepSpec& sweep) {
  // The section is built as text, because a JSON object would hide a repeated key.
  std::string section = "{\"keep\": " + text_of(v1::SweepSpec::Keep_Name(sweep.keep()));
  for (const v1::SweepSpec::Axis& axis : sweep.axes()) {
    std::string values;
    const auto status = google::protobuf::util::MessageToJsonString(axis.values(), &values);
    if (!status.ok()) {
      throw InputError("sweep." + printable(axis.key()), "has a value that JSON does not have");
    }
    section += ",\n  " + text_of(axis.key()) + ": " + values;
  }
  std::string file = text_of(OrderedJson::parse(job_spec_to_json(spec)));
  file.pop_back();
  return file + (file.size() > 1 ? ",\n" : "") + "\"sweep\": " + section + "}}\n";
}

}  // namespace dotresize
