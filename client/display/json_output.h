#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "client/calls/rpc_error.h"
#include "dotresize/v1/jobs.pb.h"

namespace dotresize {

/// Keys spelled as in the .proto; scalar fields that are not set have their default, messages and
/// optional fields that are not set are left out.
/// 64-bit integers are numbers, not the strings of Protobuf's own JSON mapping.
nlohmann::ordered_json to_json(const google::protobuf::Message& message);

/// {"jobs": [...]}
nlohmann::ordered_json to_json(const std::vector<v1::Job>& jobs);

/// {"error": {"code", "message", "exit_code"[, "violations": [{"field", "description"}]]}}
nlohmann::ordered_json error_json(const std::string& code, const std::string& message,
                                  int exit_code,
                                  const std::vector<FieldViolation>& violations = {});

/// The document on stdout, indented, with a newline. Bytes that are not UTF-8 are replaced.
void print_json(const nlohmann::ordered_json& document);
/// The same on one line, and flushed: for a document that is one of a sequence.
void print_json_line(const nlohmann::ordered_json& document);

}  // namespace dotresize
