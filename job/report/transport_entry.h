#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "job/report/transport_picture.h"

namespace dotresize {

/// The entry `transport` of a junction in report.json (docs/output.md).
nlohmann::json to_json(const TransportPicture& picture);

/// Throws InputError "ORIGIN: transport.KEY: what is wrong" if `object` is no such entry.
TransportPicture transport_picture_from_json(const nlohmann::json& object,
                                             const std::string& origin);

}  // namespace dotresize
