#include "job/plan/resolve/asked_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "job/model/model_size.h"
#include "job/model/units/unit.h"

namespace dotresize {
namespace {

double size_of_bytes(const v1::Method& method, const ModelConfig& config) {
  const int64_t dense = stored_bytes(config);
  const int64_t bytes = parse_bytes(method.bytes()).value();
  if (bytes >= dense && !method.allow_larger()) {
    throw InputError("method.bytes", method.bytes() + " is not less than the dense model has, " +
                                         with_separators(dense) + " bytes");
  }
  return static_cast<double>(bytes) / static_cast<double>(dense);
}

double size_of_speed(double speed, const ModelConfig& config, const StoredDtypes& output) {
  if (kExperts.in_model(config)) {
    throw InputError("method.speed", "a token uses some experts of this " + config.family +
                                         " alone, so bytes do not give a speed; give size or "
                                         "bytes");
  }
  const auto all = static_cast<double>(prompt_multiplications(config));
  const double removed = all * (1.0 - 1.0 / speed);
  const ModelConfig whole = with_dtypes(config, output);
  const double left =
      static_cast<double>(stored_bytes(whole)) - removed * size_in_bytes(output.main);
  if (left <= static_cast<double>(end_size(whole).bytes)) {
    const auto head = static_cast<double>(head_matrix_size(config).parameters);
    throw InputError("method.speed",
                     fmt::format("{} is not available: without any layer the model would be {:.1f} "
                                 "times as fast",
                                 speed, all / head));
  }
  return left / static_cast<double>(stored_bytes(config));
}

}  // namespace

double asked_size(const v1::Method& method, const ModelConfig& config, const StoredDtypes& output) {
  if (method.has_bytes()) return size_of_bytes(method, config);
  if (method.has_speed()) return size_of_speed(method.speed(), config, output);
  return method.size();
}

AskedSize asked_by(const v1::Method& method) {
  if (method.has_bytes()) return {"method.bytes", printable(method.bytes())};
  if (method.has_speed()) return {"method.speed", fmt::format("{:.6g}", method.speed())};
  return {"method.size", fmt::format("{:.6g}", method.size())};
}

std::optional<double> speed_at_size(double size, const ModelConfig& config,
                                    const StoredDtypes& output) {
  if (kExperts.in_model(config)) return std::nullopt;
  const auto whole = static_cast<double>(stored_bytes(with_dtypes(config, output)));
  const double removed =
      (whole - size * static_cast<double>(stored_bytes(config))) / size_in_bytes(output.main);
  const auto all = static_cast<double>(prompt_multiplications(config));
  // Nothing is removed where the whole model fits, as it may in a narrower dtype.
  return removed < all ? std::optional(all / (all - std::max(removed, 0.0))) : std::nullopt;
}

}  // namespace dotresize
