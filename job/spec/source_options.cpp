#include "job/spec/source_options.h"

namespace dotresize {

void add_source_options(CLI::App& app, TokenSource& source, const std::string& purpose) {
  auto* group = app.add_option_group("source", "One of");
  group->add_option("--text", source.text, purpose + " text files, joined with a blank line")
      ->type_name("FILE...");
  group
      ->add_option("--tokens", source.tokens,
                   purpose + " a safetensors file with a tensor \"tokens\"")
      ->type_name("FILE");
  group->require_option(0, 1);
  app.add_option("--seqlen", source.seqlen,
                 "Tokens per window (default: the token file's rows, else 2048)")
      ->type_name("N")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24).description(""));
}

void check_source_options(const TokenSource& source) {
  if (source.seqlen && source.text.empty() && source.tokens.empty()) {
    throw CLI::ValidationError("--seqlen needs --text or --tokens");
  }
}

void append_source_arguments(const TokenSource& source, std::vector<std::string>& arguments) {
  const auto add = [&](const std::string& name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  for (const auto& file : source.text) add("--text", file.string());
  if (!source.tokens.empty()) add("--tokens", source.tokens.string());
  if (source.seqlen) add("--seqlen", std::to_string(*source.seqlen));
}

}  // namespace dotresize
