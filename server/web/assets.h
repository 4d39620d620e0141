#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// A file that the pages link to, the same for every visitor.
struct Asset {
  std::string path;  ///< "/style.css"
  std::string type;  ///< MIME type
  std::string content;
  std::string url;  ///< path with a hash of the content, for caching
};

/// The style sheet, the two scripts of reports, and the script that updates pages.
const std::vector<Asset>& assets();

/// URL of the asset at `path`. Throws std::logic_error if there is none.
const std::string& asset_url(const std::string& path);

}  // namespace dotresize
