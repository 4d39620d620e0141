#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// A file that the pages link to: the same for every visitor.
struct Asset {
  std::string path;  ///< "/style.css"
  std::string type;  ///< of the content
  std::string content;
  std::string url;  ///< its path with a mark of its content, so that browsers may keep it
};

/// The style sheet, the two scripts of the plots, and the one that brings pages up to date.
const std::vector<Asset>& assets();

/// Of one of them, by its path.
const std::string& asset_url(const std::string& path);

}  // namespace dotresize
