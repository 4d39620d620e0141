#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/rpc_error.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Converts a message to JSON with keys as in the .proto. Unset scalar fields have their default;
/// unset messages and optional fields are left out. 64-bit integers are numbers, not strings as in
/// Protobuf's own JSON mapping.
nlohmann::ordered_json to_json(const google::protobuf::Message& message);

/// Returns {"jobs": [...]}.
nlohmann::ordered_json to_json(const std::vector<v1::Job>& jobs);

/// Returns {"error": {"code", "message", "exit_code"[, "violations": [{"field", "description"}]]}}.
nlohmann::ordered_json error_json(const std::string& code, const std::string& message,
                                  int exit_code,
                                  const std::vector<FieldViolation>& violations = {});

/// Prints the document to stdout, indented, with a newline. Bytes that are not UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& document);
/// Prints the document on one line and flushes: for a sequence of documents.
void print_json_line(const nlohmann::ordered_json& document);

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
