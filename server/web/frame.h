#pragma once

#include <string>

namespace dotresize {

/// Content of the frame that all pages share.
struct Frame {
  std::string title = {};
  std::string body = {};        ///< HTML
  std::string state = {};       ///< the page reloads completely when this changes
  bool live = false;            ///< the parts with data-live are updated in place
  std::string report = {};      ///< Page::data of the report in `body`; empty: none
  std::string caller = {};      ///< "ann (submit)"; empty: not signed in
  std::string form_token = {};  ///< set if signed in
};

/// The complete HTML document, UTF-8.
std::string frame_html(const Frame& frame);

}  // namespace dotresize
