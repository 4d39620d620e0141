#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "job/page/page.h"

namespace dotresize {

/// The figures for page.js.
std::string figures_json(const std::vector<Figure>& figures);

/// JSON that may stand in a script element: it has none of < > &.
std::string script_json(const nlohmann::ordered_json& value);

/// As a Content-Security-Policy names a script or a style sheet: base64 of its SHA-256.
std::string content_hash(std::string_view content);

}  // namespace dotresize
