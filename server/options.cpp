#include "server/options.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <utility>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "job/spec/command_options.h"
#include "job/spec/validate_spec.h"
#include "server/access/endpoint.h"
#include "server/launch/launcher.h"
#include "server/store/resources.h"

namespace dotresize {
namespace {

std::filesystem::path default_state_dir() {
  const std::filesystem::path xdg = environment_variable("XDG_STATE_HOME");
  if (xdg.is_absolute()) return xdg / "dotresize";
  const std::filesystem::path home = environment_variable("HOME");
  return home.empty() ? home : home / ".local/state/dotresize";
}

/// Sets the option from an entry of the file, unless a flag or the environment has set it.
void apply_entry(const YAML::Node& value, const std::string& key, CLI::App& app) {
  std::string flag = "--" + key;
  std::ranges::replace(flag, '_', '-');
  CLI::Option* option = app.get_option_no_throw(flag);
  if (option == nullptr || !option->get_configurable()) {
    std::vector<std::string> known;
    for (const CLI::Option* each : app.get_options()) {
      if (!each->get_configurable()) continue;
      std::ranges::replace(known.emplace_back(each->get_single_name()), '-', '_');
    }
    const std::string suggestion = closest(key, known);
    throw CLI::ConfigError(suggestion.empty() ? "unknown key; see dotresize-server --help"
                                              : "unknown key, did you mean " + suggestion + "?");
  }
  const bool list = value.IsSequence() && option->get_items_expected_max() > 1;
  if (!value.IsScalar() && !list) throw CLI::ConfigError("a single value expected");
  if (option->count() > 0) return;
  const auto texts =
      list ? value.as<std::vector<std::string>>() : std::vector{value.as<std::string>()};
  for (const std::string& text : texts) option->add_result(text);
  option->run_callback();
}

/// Applies all entries of the file. Throws CLI::ConfigError with one line per wrong entry.
void apply_config_file(const std::string& file, CLI::App& app) {
  const YAML::Node root = YAML::LoadFile(file);
  if (root.IsNull()) return;
  if (!root.IsMap())
    throw CLI::ConfigError(file + ": a mapping of option names to values expected");
  std::string faults;
  for (const auto& entry : root) {
    const std::string key = entry.first.as<std::string>();
    try {
      apply_entry(entry.second, key, app);
    } catch (const CLI::ParseError& error) {
      faults += fmt::format("{}{}:{}: {}: {}", faults.empty() ? "" : "\n", file,
                            entry.first.Mark().line + 1, key, error.what());
    }
  }
  if (!faults.empty()) throw CLI::ConfigError(faults);
}

/// Options on who may call, and on the paths and URLs that jobs may name.
void add_access_options(CLI::App& app, ServerOptions& options) {
  AccessOptions& access = options.access;
  add_value(
      app, "--tls", "DIR", access.tls,
      "Directory with tls.crt, tls.key (readable by this user only) and, if clients must have "
      "certificates, their authority client-ca.crt; with --workers also ca.crt, by which "
      "ranks know this server");
  add_value(app, "--tokens", "FILE", access.tokens,
            "File with the hashes of clients' tokens, of `dotresize-server token`");
  app.add_flag("--insecure", access.insecure,
               "Listen on an address that others reach though clients need neither certificate nor "
               "token, or without TLS");
  add_value(app, "--allow-root", "DIR", access.allow_roots,
            "Directory in which all paths of jobs must lie, symbolic links resolved; may be "
            "given several times (default: anywhere)")
      ->delimiter(':');
  app.add_flag("--allow-model-fetch", access.allow_model_fetch,
               "Let owners of jobs, and admins, fetch the models over the API");
  add_value(app, "--allow-remote", "URL", access.allow_remote,
            "URL below which jobs may read and write models with this server's credentials, "
            "such as hf://org/ or s3://bucket/key; may be given several times (default: none)")
      ->delimiter(' ');
  add_value(app, "--allow-webhook", "URL", options.webhooks.prefixes,
            "URL below which jobs may send notifications of their ends, "
            "such as https://ci.example.com/hooks; may be given several times (default: none)")
      ->delimiter(' ');
  add_value(app, "--webhook-secret", "FILE", options.webhooks.secret,
            "File with the key that signs notifications, readable by this user only");
}

/// Options on capacity, callers, retries and timeouts of jobs.
void add_limit_options(CLI::App& app, LimitOptions& limits) {
  app.add_option("--max-rate", limits.max_rate,
                 "Calls of one caller a second, over ten seconds; 0: any number")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-ranks", limits.max_ranks, "MPI ranks running at the same time")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--memory", [&limits](const std::string& text) { limits.memory = *parse_bytes(text); },
         "Memory for all running jobs, such as 256GiB (default: all of the machine's)")
      ->type_name("SIZE")
      ->check([](const std::string& text) {
        const bool is_size = parse_bytes(text).value_or(0) > 0;
        return is_size ? "" : "'" + text + "' is not a size such as 256GiB";
      });
  app.add_option("--max-attempts", limits.max_attempts,
                 "Attempts at one job whose processes are lost or killed; 1: no second attempt")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  const auto add_seconds = [&app](const char* name, std::chrono::seconds& time, const char* text) {
    return app
        .add_option_function<int>(
            name, [&time](int count) { time = std::chrono::seconds(count); }, text)
        ->default_str(std::to_string(time.count()));
  };
  add_seconds("--retry-delay", limits.retry_delay,
              "Seconds before the second attempt, doubled before each further one")
      ->check(CLI::Range(0, 3600));
  add_seconds("--heartbeat-timeout", limits.heartbeat_timeout,
              "Seconds of silence after which a job is stopped")
      ->check(CLI::Range(5, 86400));
}

/// Splits NAME or NAME=PROGRAM into `choice`. The program of a name alone is that of the package.
/// Returns what is wrong with the text; empty if nothing is.
std::string split_launcher(const std::string& text, LauncherChoice& choice) {
  const size_t end = text.find('=');
  const std::string name = text.substr(0, end);
  const bool built_in = name == kLocalLauncher || name == kExternalLauncher;
  if (!is_launcher_name(name)) return "'" + name + "' is not the name of a launcher";
  choice = {name, ""};
  if (end == std::string::npos) {
    if (!built_in) choice.program = packaged_launcher(name);
    return "";
  }
  if (built_in) return name + " has no program";
  if (end + 1 == text.size()) return name + "= needs a program";
  choice.program = std::filesystem::absolute(text.substr(end + 1));
  return "";
}

/// Options on launchers, and on how ranks on other machines call.
void add_launcher_options(CLI::App& app, LaunchOptions& launch) {
  const auto take = [&launchers = launch.launchers](const std::vector<std::string>& texts) {
    launchers.clear();
    for (const std::string& text : texts) {
      LauncherChoice choice;
      split_launcher(text, choice);  // checked before
      if (std::ranges::find(launchers, choice.name, &LauncherChoice::name) != launchers.end()) {
        throw CLI::ValidationError("--launcher", choice.name + " is given twice");
      }
      launchers.push_back(std::move(choice));
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--launcher", take,
         "Launchers of jobs, comma-separated: local (mpirun here), external (a person), "
         "slurm, kubernetes, ssh, or another name with its program; the first is the "
         "default of jobs")
      ->type_name("NAME[=PROGRAM],...")
      ->delimiter(',')
      ->check([](const std::string& text) {
        LauncherChoice choice;
        return split_launcher(text, choice);
      })
      ->default_str(kLocalLauncher);
  app.add_option("--workers", launch.workers,
                 "HOST:PORT under which ranks on other machines reach this server (default: none)")
      ->check(endpoint_fault);
}

/// Option on how much is logged, and in which format.
void add_log_option(CLI::App& app, LogOptions& log) {
  const auto take = [&log](const std::vector<std::string>& words) {
    log = {};
    int levels = 0;
    for (const std::string& word : words) {
      if (word == "json") {
        log.format = LogFormat::kJson;
      } else {
        log.level = word;
        if (++levels > 1) throw CLI::ValidationError("--log", "takes one level");
      }
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--log", take,
         "Lowest level that is logged (debug, info, warn, error); json makes each line an object")
      ->type_name("LEVEL|json,...")
      ->delimiter(',')
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "json"}).description(""))
      ->default_str(log.level);
}

/// Gives each option of the file an environment variable too: DOTRESIZE_MAX_RATE for --max-rate.
void name_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_configurable()) continue;
    std::string name = option->get_single_name();
    std::ranges::transform(name, name.begin(), [](char c) {
      return c == '-' ? '_' : static_cast<char>(std::toupper(c));
    });
    option->envname("DOTRESIZE_" + name);
  }
}

/// Prints the error, or the help text if that was asked for, and throws ExitNow.
[[noreturn]] void exit_after(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) throw ExitNow{app.exit(error)};
  std::cerr << app.get_name() << ": error: " << error.what() << "\n`" << app.get_name()
            << " --help` explains the options.\n";
  throw ExitNow{kExitUsage};
}

void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    refuse_empty_arguments(app);
  } catch (const CLI::ParseError& error) {
    exit_after(app, error);
  }
}

}  // namespace

BackupOptions parse_backup_options(int argc, char** argv) {
  BackupOptions options;
  options.state_dir = default_state_dir();
  CLI::App app("Copies the state directory of a server, even while the server runs.",
               "dotresize-server backup");
  app.add_option("--state", options.state_dir, "Directory of the job table")
      ->envname("DOTRESIZE_STATE")
      ->capture_default_str();
  add_argument(app, "TARGET", options.target, "Directory to make; a server can be started on it");
  parse(app, argc, argv);
  return options;
}

TokenOptions parse_token_options(int argc, char** argv) {
  TokenOptions options;
  CLI::App app("Makes a token for a client, prints it once and adds its hash to the file.",
               "dotresize-server token");
  add_value(app, "--tokens", "FILE", options.tokens, "File with the hashes of clients' tokens")
      ->required()
      ->envname("DOTRESIZE_TOKENS");
  add_argument(app, "NAME", options.name, "Name of the client");
  CLI::Option* role = app.add_option("ROLE", options.role, "read, submit or admin")->type_name("");
  app.add_flag("--rotate", options.rotate,
               "Issue a new token with the same role to NAME; the previous token stays valid until "
               "the next rotation");
  app.add_flag("--revoke", options.revoke,
               "Remove the tokens of NAME; a running server reads the file again at SIGHUP");
  parse(app, argc, argv);
  if (int{options.rotate} + int{options.revoke} + int{role->count() > 0} != 1) {
    exit_after(app, CLI::ValidationError("NAME", "needs one of ROLE, --rotate and --revoke"));
  }
  return options;
}

ServerOptions parse_options(int argc, char** argv) {
  ServerOptions options;
  options.state_dir = default_state_dir();
  std::string config_file;

  CLI::App app(
      "The dotresize coordinator: takes jobs over gRPC and runs them under mpirun, or has "
      "Slurm, Kubernetes or others run them.",
      "dotresize-server");
  app.set_version_flag("--version", kVersion)->configurable(false);
  app.get_help_ptr()->configurable(false);
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 takes the last run's, or any free")
      ->check(endpoint_fault)
      ->capture_default_str();
  CLI::Option* state = app.add_option("--state", options.state_dir, "Directory of the job table")
                           ->capture_default_str();
  app.add_option("--http", options.http,
                 "HOST:PORT of the web pages, /healthz, /readyz and /metrics (default: none)")
      ->check(endpoint_fault);
  add_log_option(app, options.log);
  add_access_options(app, options);
  add_limit_options(app, options.limits);
  add_launcher_options(app, options.launch);
  app.add_option("--config", config_file, "YAML file with these options")
      ->envname("DOTRESIZE_CONFIG")
      ->check(CLI::ExistingFile)
      ->configurable(false);
  name_variables(app);
  try {
    app.parse(argc, argv);
    if (!config_file.empty()) apply_config_file(config_file, app);
    refuse_empty_arguments(app);
    if (options.state_dir.empty()) throw CLI::RequiredError(state->get_name());
  } catch (const CLI::ParseError& error) {
    exit_after(app, error);
  } catch (const YAML::Exception& error) {
    exit_after(app, CLI::ConfigError(config_file + ": " + error.what()));
  }
  options.state_dir = std::filesystem::absolute(options.state_dir);
  return options;
}

}  // namespace dotresize
