#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "client/calls/rpc_error.h"

namespace dotresize {

/// Prints a log that arrives in pieces, without storing it. A piece may end within a character.
class LogOutput {
 public:
  enum class Form {
    kBytes,     ///< unchanged: for files and other programs
    kTerminal,  ///< text without control and text-direction characters
    kJson,      ///< one document, {"id": ..., "log": ...}
  };
  LogOutput(std::ostream& out, Form form, std::string id);

  void add(std::string_view piece);
  void finish();
  /// Ends a log that breaks off. A JSON document gets the error.
  void finish(const RpcError& error);
  /// True if anything has been printed.
  bool begun() const { return begun_; }

 private:
  void begin();
  void print(std::string_view characters);

  std::ostream& out_;
  const Form form_;
  const std::string id_;
  std::string rest_;  ///< an incomplete character
  bool begun_ = false;
};

}  // namespace dotresize
