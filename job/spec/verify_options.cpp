#include "job/spec/verify_options.h"

#include "job/spec/source_options.h"

namespace dotresize {

void add_verify_options(CLI::App& app, VerifyRequest& request) {
  app.add_option("DIR", request.dir, "A model directory that dotresize wrote")
      ->required()
      ->type_name("");
  app.add_option("--against", request.against,
                 "The model that it was made of: compares hashes, and what both models compute")
      ->type_name("MODEL_DIR");
  add_source_options(app, request.source, "With --against: compare over");
  app.callback([&request] {
    const TokenSource& source = request.source;
    check_source_options(source);
    if (request.against.empty() && (!source.text.empty() || !source.tokens.empty())) {
      throw CLI::ValidationError("--text and --tokens need --against");
    }
  });
}

std::vector<std::string> verify_arguments(const VerifyRequest& request) {
  std::vector<std::string> arguments;
  if (!request.against.empty()) {
    arguments.insert(arguments.end(), {"--against", request.against.string()});
  }
  append_source_arguments(request.source, arguments);
  arguments.insert(arguments.end(), {"--", request.dir.string()});
  return arguments;
}

}  // namespace dotresize
