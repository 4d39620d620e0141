#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/encodings.h"
#include "job/page/page.h"

namespace dotresize {

/// Figures as JSON for page.js.
std::string figures_json(const std::vector<Figure>& figures);

/// JSON that is safe inside a script element: it contains none of < > &.
std::string script_json(const nlohmann::ordered_json& value);

/// Base64 of the SHA-256 of a script or style sheet, for a Content-Security-Policy.
std::string content_hash(std::string_view content);

}  // namespace dotresize
