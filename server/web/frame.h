#pragma once

#include <string>
#include <vector>

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

/// Page that asks for a token. `next`: page shown after sign-in; `fault`: why it asks again, or
/// empty.
Frame sign_in_frame(const std::string& next, const std::string& fault);

/// Page with a message, e.g. why something cannot be shown or done.
Frame message_frame(const std::string& heading, const std::string& text);

/// An action that a page offers.
struct PageAction {
  std::string address;  ///< target of its form
  std::string label;
  std::string button;  ///< label of the confirming button, shown with `effect`
  std::string effect;
};

/// HTML forms of the actions, with the visitor's form token; empty without a token or without
/// actions.
std::string actions_html(const std::vector<PageAction>& actions, const std::string& form_token);

}  // namespace dotresize
