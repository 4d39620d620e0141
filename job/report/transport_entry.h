#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "job/report/transport_picture.h"

namespace dotresize {

/// Converts to the entry `transport` of a junction in report.json (docs/output.md).
nlohmann::json to_json(const TransportPicture& picture);

/// Throws InputError "ORIGIN: transport.KEY: what is wrong" if `object` is not a transport entry.
TransportPicture transport_picture_from_json(const nlohmann::json& object,
                                             const std::string& origin);

}  // namespace dotresize
