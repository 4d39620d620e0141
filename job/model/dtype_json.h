#pragma once

#include <nlohmann/json.hpp>

#include "job/model/dtype.h"

namespace dotresize {

/// Converts to {"dtype": main}, with "other_dtypes" {tensor: dtype} if they are mixed.
inline nlohmann::json dtypes_json(const StoredDtypes& dtypes) {
  nlohmann::json object = {{"dtype", to_string(dtypes.main)}};
  for (const auto& [tensor, dtype] : dtypes.others) {
    object["other_dtypes"][tensor] = to_string(dtype);
  }
  return object;
}

}  // namespace dotresize
