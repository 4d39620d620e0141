#pragma once

#include <iostream>
#include <string>

#include "client/display/json_output.h"
#include "client/verbs/verb.h"

namespace dotresize {

/// Prints the server's `answer` (one or several messages) as JSON, or `text`, the same for people.
template <class Answer>
void print(const Answer& answer, const std::string& text, const CommonOptions& common) {
  if (common.json()) {
    print_json(to_json(answer));
  } else {
    std::cout << text;
  }
}

}  // namespace dotresize
