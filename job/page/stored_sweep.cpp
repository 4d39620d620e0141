#include "job/page/stored_sweep.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/text/checked_json.h"

namespace dotresize {
namespace {

using nlohmann::json;

StoredVariant variant_of(const json& object, const std::vector<std::string>& axes) {
  StoredVariant variant;
  const json& values = object.at("values");
  for (const std::string& axis : axes) {
    const json& value = values.at(axis);
    variant.values.push_back(value.is_null() ? "" : value.get<std::string>());
  }
  object.at("state").get_to(variant.state);
  variant.reason = object.value("reason", "");
  if (!variant.done()) return variant;
  object.at("width").get_to(variant.width);
  object.at("bytes").get_to(variant.bytes);
  object.at("bytes_fraction").get_to(variant.bytes_fraction);
  object.at("perplexity").get_to(variant.perplexity);
  object.at("pareto").get_to(variant.pareto);
  object.at("best").get_to(variant.best);
  get_if(object, "kl", variant.kl);
  get_if(object, "agreement", variant.agreement);
  return variant;
}

}  // namespace

StoredSweep parse_results(const std::string& text, const std::string& origin) {
  const json document = parse_json_object(text, origin);
  StoredSweep sweep;
  try {
    document.at("name").get_to(sweep.name);
    document.at("directory").get_to(sweep.directory);
    document.at("combinations").get_to(sweep.combinations);
    document.at("axes").get_to(sweep.axes);
    if (sweep.axes.empty()) throw InputError(origin + ": axes: must not be empty");
    if (document.contains("dense")) {
      sweep.dense_bytes = document.at("dense").at("bytes").get<int64_t>();
      sweep.dense_perplexity = document.at("dense").at("perplexity").get<double>();
    }
    for (const json& variant : document.at("variants")) {
      sweep.variants.push_back(variant_of(variant, sweep.axes));
    }
  } catch (const json::exception& error) {
    throw InputError(origin + ": " + json_fault(error));
  }
  return sweep;
}

bool is_size_key(const std::string& key) {
  return key == "method.sparsity" || key == "method.width" || key == "method.size";
}

}  // namespace dotresize
