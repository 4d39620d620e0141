#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "base/errors.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/spec/sweep_file.h"

namespace dotresize {
namespace {

using OrderedJson = nlohmann::ordered_json;

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
