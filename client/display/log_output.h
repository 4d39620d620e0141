#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "client/calls/rpc_error.h"

namespace dotresize {

/// Prints a log that arrives in pieces, which may end within a character, without keeping it.
class LogOutput {
 public:
  enum class Form {
    kBytes,     ///< as it is: for files and other programs
    kTerminal,  ///< lines of text: nothing in it steers the terminal or changes the words' order
    kJson,      ///< one document, {"id": ..., "log": ...}
  };
  LogOutput(std::ostream& out, Form form, std::string id);

  void add(std::string_view piece);
  void finish();
  /// The log breaks off: a JSON document that has begun says why.
  void finish(const RpcError& error);
  /// Whether anything has been printed.
  bool begun() const { return begun_; }

 private:
  void begin();
  void print(std::string_view characters);

  std::ostream& out_;
  const Form form_;
  const std::string id_;
  std::string rest_;  ///< the beginning of a character
  bool begun_ = false;
};

}  // namespace dotresize
