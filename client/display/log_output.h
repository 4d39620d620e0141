#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "client/calls/rpc_error.h"

namespace dotresize {

/// Prints a log that arrives in pieces, without storing it. A piece may end within a character.
struct LogOutput {
  enum class Form {
    kBytes,     ///< unchanged: for files and other programs
    kTerminal,  ///< text without control and text-direction characters
    kJson,      ///< one document, {"id": ..., "log": ...}
  };

  /// `last`: no other piece completes its last character.
  void add(std::string_view piece, bool last = false);
  /// Ends the log. `error`: why it breaks off; a JSON document gets the error.
  void finish(const RpcError* error = nullptr);

  std::ostream& out;
  const Form form;
  const std::string id;
  std::string rest = {};  ///< an incomplete character
  bool begun = false;     ///< anything has been printed
};

}  // namespace dotresize
