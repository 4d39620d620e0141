#pragma once

#include <string>
#include <vector>

namespace dotresize {

/// What a page offers to do.
struct PageAction {
  std::string address;  ///< where its form goes
  std::string label;
  std::string button;  ///< what is pressed once its effect has been read
  std::string effect;
};

/// Their forms, with the visitor's form token; empty without one or without actions.
std::string actions_html(const std::vector<PageAction>& actions, const std::string& form_token);

}  // namespace dotresize
