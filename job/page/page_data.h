#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "job/page/page.h"

namespace dotresize {

/// The figures for page.js, as JSON that may stand in a script element: it has none of < > &.
std::string figures_json(const std::vector<Figure>& figures);

std::string base64(std::string_view bytes);

/// As a Content-Security-Policy names a script or a style sheet: base64 of its SHA-256.
std::string content_hash(std::string_view content);

}  // namespace dotresize
