#include "client/verbs/verb.h"

#include <cstdint>
#include <string>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/text/encodings.h"
#include "base/text/printable.h"
#include "job/spec/spec_paths.h"
#include "job/sweep/sweep_results.h"

namespace dotresize {
namespace {

/// Throws InputError for a port that does not exist. gRPC calls the one modulo 65,536.
void require_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  const bool number = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
  if (address.starts_with("unix:") || !number || parse_number<uint16_t>(port)) return;
  throw InputError("--server", address + ": a port is a number of 0 to 65535");
}

}  // namespace

Connection CommonOptions::connect() const {
  std::string address = server.empty() ? environment_variable("DOTRESIZE_SERVER") : server;
  if (address.empty()) address = "127.0.0.1:50051";
  require_port(address);
  constexpr char kTokenFile[] = "DOTRESIZE_TOKEN_FILE";
  const std::string file = environment_variable(kTokenFile);
  std::string token = read_small_file(file);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (!is_printable(token)) throw InputError(kTokenFile, file + " holds no token");
  return Connection(address, tls, token);
}

void add_server_option(CLI::App& command, CommonOptions& common) {
  add_value(command, "--server", "HOST:PORT", common.server,
            "Address of the server (default: $DOTRESIZE_SERVER, else 127.0.0.1:50051)");
  add_value(command, "--tls-ca", "FILE", common.tls.ca,
            "Use TLS, with this authority of the server's certificate (PEM)")
      ->envname("DOTRESIZE_TLS_CA");
  add_value(command, "--cert", "FILE", common.tls.certificate, "Certificate of this client (PEM)")
      ->envname("DOTRESIZE_CERT");
  add_value(command, "--key", "FILE", common.tls.key, "Key of this client (PEM)")
      ->envname("DOTRESIZE_KEY");
}

void add_output_option(CLI::App& command, CommonOptions& common) {
  add_value(command, "-o,--output", "FORMAT", common.output,
            "text, or json: one JSON document on stdout")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->capture_default_str();
}

void add_set_option(CLI::App& command, std::vector<std::string>& changes) {
  add_value(command, "--set", "KEY=VALUE", changes,
            "Change a key of the job file, as in --set method.size=0.7; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

CLI::App& add_server_verb(CLI::App& app, CommonOptions& common, const std::string& name,
                          const std::string& description, const std::string& examples) {
  CLI::App& command = *app.add_subcommand(name, description);
  add_server_option(command, common);
  add_output_option(command, common);
  command.footer("Examples:\n" + examples);
  command.group("With a server");
  return command;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  for (const CLI::App* group : app.get_subcommands(nullptr)) {
    if (!group->get_name().empty()) continue;  // a group of options is an app without a name
    const std::vector<std::string> more = option_names(*group);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

void expand_home_in_paths(CLI::App& app) {
  const CLI::Validator expand(
      [](std::string& path) {
        path = with_home(path);
        return std::string();
      },
      "");
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("FILE") || type.starts_with("DIR") || type.starts_with("MODEL_DIR")) {
      option->transform(expand);
    }
  }
  for (CLI::App* command : app.get_subcommands(nullptr)) expand_home_in_paths(*command);
}

void add_labels(const std::vector<std::string>& texts,
                google::protobuf::Map<std::string, std::string>& labels) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw InputError("--label", in_quotes(text) + " is not KEY=VALUE");
    }
    labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

void print_sweep(const v1::SweepResults& results, bool pareto, const CommonOptions& common) {
  const auto [plan, rows] = reported_sweep(results);
  std::cout << (common.json() ? sweep_json(plan, rows) : sweep_table(plan, rows, pareto))
            << std::flush;
}

}  // namespace dotresize
