#pragma once

#include <string>

namespace dotresize {

/// A page but for what it is about.
struct Frame {
  std::string title = {};
  std::string body = {};        ///< HTML
  std::string state = {};       ///< if it becomes another one, the whole page is loaded again
  bool live = false;            ///< parts of it, with data-live, change by themselves
  std::string figures = {};     ///< figures_json() of those in `body`; empty: there are none
  std::string caller = {};      ///< "ann (submit)"; empty: nobody has signed in
  std::string form_token = {};  ///< if somebody has
};

/// The document, UTF-8.
std::string frame_html(const Frame& frame);

}  // namespace dotresize
