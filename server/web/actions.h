#pragma once

#include <string>
#include <vector>

namespace dotresize {

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
