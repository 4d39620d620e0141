#include "server/options.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "base/process/environment.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
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

std::string flag_of_key(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

std::string key_of_flag(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<std::string> values_of(const YAML::Node& node) {
  return node.IsScalar() ? std::vector{node.as<std::string>()}
                         : node.as<std::vector<std::string>>();
}

/// Sets the option from an entry of the file, unless a flag or the environment has set it.
void apply_entry(const YAML::Node& value, const std::string& key, CLI::App& app) {
  CLI::Option* option = app.get_option_no_throw(flag_of_key(key));
  if (option == nullptr || !option->get_configurable()) {
    std::vector<std::string> known;
    for (const CLI::Option* each : app.get_options()) {
      if (each->get_configurable()) known.push_back(key_of_flag(each->get_single_name()));
    }
    const std::string suggestion = closest(key, known);
    throw CLI::ConfigError(suggestion.empty() ? "unknown key; see dotresize-server --help"
                                              : "unknown key, did you mean " + suggestion + "?");
  }
  const bool list = value.IsSequence() && option->get_items_expected_max() > 1;
  if (!value.IsScalar() && !list) throw CLI::ConfigError("a single value expected");
  if (option->count() > 0) return;
  for (const std::string& text : values_of(value)) option->add_result(text);
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

/// Options on who may call and which paths jobs may name.
void add_access_options(CLI::App& app, ServerOptions& options) {
  app.add_option("--tls-cert", options.access.tls.certificate, "Certificate of the server (PEM)")
      ->type_name("FILE")
      ->envname("DOTRESIZE_TLS_CERT");
  app.add_option("--tls-key", options.access.tls.key, "Its key (PEM), closed to other users")
      ->type_name("FILE")
      ->envname("DOTRESIZE_TLS_KEY");
  app.add_option("--tls-client-ca", options.access.tls.client_ca,
                 "Authority (PEM) whose certificates clients must have")
      ->type_name("FILE")
      ->envname("DOTRESIZE_TLS_CLIENT_CA");
  app.add_option("--tokens", options.access.tokens,
                 "File with the hashes of clients' tokens, of `dotresize-server token`")
      ->type_name("FILE")
      ->envname("DOTRESIZE_TOKENS");
  app.add_flag("--insecure", options.access.insecure,
               "Listen on an address that others reach though clients need neither certificate nor "
               "token, or without TLS")
      ->envname("DOTRESIZE_INSECURE");
  app.add_option("--allow-root", options.access.allow_roots,
                 "Directory in which all paths of jobs must lie, symbolic links resolved; may be "
                 "given several times (default: anywhere)")
      ->type_name("DIR")
      ->envname("DOTRESIZE_ALLOW_ROOT")
      ->delimiter(':');
  app.add_flag("--allow-model-fetch", options.access.allow_model_fetch,
               "Let owners of jobs, and admins, fetch the models over the API")
      ->envname("DOTRESIZE_ALLOW_MODEL_FETCH");
  app.add_option("--allow-webhook", options.webhooks.prefixes,
                 "URL under which jobs may have somebody told of their ends, "
                 "https://ci.example.com/hooks say; may be given several times (default: none)")
      ->type_name("URL")
      ->envname("DOTRESIZE_ALLOW_WEBHOOK")
      ->delimiter(' ');
  app.add_option("--webhook-secret", options.webhooks.secret,
                 "File with the key that signs these messages, closed to other users")
      ->type_name("FILE")
      ->envname("DOTRESIZE_WEBHOOK_SECRET");
}

std::string memory_fault(const std::string& text) {
  return parse_bytes(text).value_or(0) > 0 ? "" : "'" + text + "' is no size, as 256GiB is one";
}

/// Options on remote URLs that jobs may name.
void add_remote_options(CLI::App& app, ServerOptions& options) {
  app.add_option("--allow-remote", options.remote.prefixes,
                 "URL below which jobs may read and write models with this server's credentials, "
                 "hf://org/ or s3://bucket/key say; may be given several times (default: none)")
      ->type_name("URL")
      ->envname("DOTRESIZE_ALLOW_REMOTE")
      ->delimiter(' ');
  app.add_option("--remote-cache", options.remote.cache,
                 "Where copies of these are kept (default: `remote` in the state directory)")
      ->type_name("DIR")
      ->envname("DOTRESIZE_REMOTE_CACHE");
  app.add_option_function<std::string>(
         "--remote-cache-size",
         [&options](const std::string& text) { options.remote.cache_bytes = *parse_bytes(text); },
         "What they may take together (default: 200GiB)")
      ->envname("DOTRESIZE_REMOTE_CACHE_SIZE")
      ->type_name("SIZE")
      ->check(memory_fault);
}

/// Options of logging and monitoring.
void add_watching_options(CLI::App& app, ServerOptions& options) {
  app.add_option("--http", options.http,
                 "HOST:PORT of the web pages, /healthz, /readyz and /metrics (default: none)")
      ->envname("DOTRESIZE_HTTP")
      ->check(endpoint_fault);
  app.add_option("--log-format", options.log.format, "How lines of the log are written")
      ->envname("DOTRESIZE_LOG_FORMAT")
      ->type_name("text|json")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, LogFormat>{{"text", LogFormat::kText},
                                                                   {"json", LogFormat::kJson}})
              .description(""));
  app.add_option("--log-level", options.log.level,
                 "The least that is logged: debug, info, warn, error")
      ->envname("DOTRESIZE_LOG_LEVEL")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}).description(""))
      ->capture_default_str();
}

/// Option values in units for users (seconds, launcher names).
struct RawOptions {
  explicit RawOptions(const ServerOptions& defaults)
      : heartbeat_timeout_s(static_cast<int>(defaults.limits.heartbeat_timeout.count())),
        retry_delay_s(static_cast<int>(defaults.limits.retry_delay.count())),
        launcher_poll_s(static_cast<int>(defaults.launch.poll.count())),
        external_timeout_s(static_cast<int>(defaults.launch.external_timeout.count())) {}

  void set_times(ServerOptions& options) const {
    options.limits.heartbeat_timeout = std::chrono::seconds(heartbeat_timeout_s);
    options.limits.retry_delay = std::chrono::seconds(retry_delay_s);
    options.launch.poll = std::chrono::seconds(launcher_poll_s);
    options.launch.external_timeout = std::chrono::seconds(external_timeout_s);
  }

  int heartbeat_timeout_s;
  int retry_delay_s;
  int launcher_poll_s;
  int external_timeout_s;
  std::vector<std::string> launchers = {kLocalLauncher};
};

/// Options on capacity, retries and timeouts of jobs.
void add_limit_options(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  app.add_option("--max-ranks", options.limits.max_ranks, "MPI ranks running at the same time")
      ->envname("DOTRESIZE_MAX_RANKS")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--gpus", options.limits.gpus,
                 "GPUs that jobs may have (default: all that are found)")
      ->envname("DOTRESIZE_GPUS")
      ->check(CLI::Range(0, 1024));
  app.add_option_function<std::string>(
         "--memory",
         [&options](const std::string& text) { options.limits.memory = *parse_bytes(text); },
         "Memory that jobs may take together, 256GiB say (default: what there is)")
      ->envname("DOTRESIZE_MEMORY")
      ->type_name("SIZE")
      ->check(memory_fault);
  app.add_option("--max-attempts", options.limits.max_attempts,
                 "Launches of one job whose processes are lost or killed; 1: never again")
      ->envname("DOTRESIZE_MAX_ATTEMPTS")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--retry-delay", raw.retry_delay_s,
                 "Seconds before the second launch, doubled with each further one")
      ->envname("DOTRESIZE_RETRY_DELAY")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.add_option("--heartbeat-timeout", raw.heartbeat_timeout_s,
                 "Seconds of silence after which a job is stopped")
      ->envname("DOTRESIZE_HEARTBEAT_TIMEOUT")
      ->check(CLI::Range(5, 86400))
      ->capture_default_str();
}

/// Limits for one caller.
void add_caller_options(CLI::App& app, ServerOptions& options) {
  app.add_option("--max-queued", options.limits.max_queued,
                 "Jobs of one owner that wait in the queue")
      ->envname("DOTRESIZE_MAX_QUEUED")
      ->check(CLI::Range(1, JobStore::kMaxQueuedJobs))
      ->capture_default_str();
  app.add_option("--max-rate", options.limits.max_rate,
                 "Calls of one caller a second, over ten seconds; 0: any number")
      ->envname("DOTRESIZE_MAX_RATE")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--max-streams", options.limits.max_streams,
                 "Open WatchJob, WatchJobs and GetLogs streams of one caller")
      ->envname("DOTRESIZE_MAX_STREAMS")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

/// Splits NAME or NAME=PROGRAM into `choice`. The program of a name alone is that of the package.
/// Returns what is wrong with the text; empty if nothing is.
std::string split_launcher(const std::string& text, LauncherChoice& choice) {
  const size_t end = text.find('=');
  const std::string name = text.substr(0, end);
  const bool built_in = name == kLocalLauncher || name == kExternalLauncher;
  if (!is_launcher_name(name)) return "'" + name + "' is no launcher's name";
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
void add_launcher_options(CLI::App& app, ServerOptions& options, RawOptions& raw) {
  app.add_option("--launcher", raw.launchers,
                 "What may start jobs, comma-separated: local (mpirun here), external (a person), "
                 "slurm, kubernetes, ssh, or another name with its program; the first one those "
                 "that ask for none")
      ->envname("DOTRESIZE_LAUNCHER")
      ->type_name("NAME[=PROGRAM],...")
      ->delimiter(',')
      ->check([](const std::string& text) {
        LauncherChoice choice;
        return split_launcher(text, choice);
      })
      ->capture_default_str();
  app.add_option("--launcher-poll", raw.launcher_poll_s,
                 "Seconds between questions to such a program, each for all jobs")
      ->envname("DOTRESIZE_LAUNCHER_POLL")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();
  app.add_option("--workers", options.launch.workers,
                 "HOST:PORT under which ranks on other machines reach this server (default: none)")
      ->envname("DOTRESIZE_WORKERS")
      ->check(endpoint_fault);
  app.add_option("--workers-ca", options.launch.workers_ca,
                 "Authority (PEM) of --tls-cert, by which these ranks know the server")
      ->type_name("FILE")
      ->envname("DOTRESIZE_WORKERS_CA");
  app.add_option("--max-remote-jobs", options.limits.max_remote_jobs,
                 "Jobs that other launchers than local have at once")
      ->envname("DOTRESIZE_MAX_REMOTE_JOBS")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--external-timeout", raw.external_timeout_s,
                 "Seconds after which a job fails whose command nobody has run; 0: never")
      ->envname("DOTRESIZE_EXTERNAL_TIMEOUT")
      ->check(CLI::Range(0, 2'000'000))
      ->capture_default_str();
}

/// Takes the launchers, and refuses options of launchers that are not enabled. `named` returns
/// whether an option was given.
void take_launchers(const std::vector<std::string>& texts, ServerOptions& options,
                    const std::function<bool(const char* option)>& named) {
  std::vector<LauncherChoice>& launchers = options.launch.launchers;
  const auto has = [&](const std::string& name) {
    return std::ranges::find(launchers, name, &LauncherChoice::name) != launchers.end();
  };
  launchers.clear();
  for (const std::string& text : texts) {
    LauncherChoice choice;
    split_launcher(text, choice);  // checked before
    if (has(choice.name)) throw CLI::ValidationError("--launcher", choice.name + " is given twice");
    launchers.push_back(std::move(choice));
  }
  const bool programs = std::ranges::any_of(
      launchers, [](const LauncherChoice& choice) { return !choice.program.empty(); });
  if (named("--launcher-poll") && !programs) {
    throw CLI::ValidationError("--launcher-poll", "needs a --launcher with a program");
  }
  if (named("--external-timeout") && !has(kExternalLauncher)) {
    throw CLI::ValidationError("--external-timeout", "needs --launcher external");
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
  } catch (const CLI::ParseError& error) {
    exit_after(app, error);
  }
}

}  // namespace

BackupOptions parse_backup_options(int argc, char** argv) {
  BackupOptions options;
  options.state_dir = default_state_dir();
  CLI::App app("Copies the state directory of a server, which may be running.",
               "dotresize-server backup");
  app.add_option("--state", options.state_dir, "Directory of the job table")
      ->envname("DOTRESIZE_STATE")
      ->capture_default_str();
  app.add_option("TARGET", options.target, "Directory to make; a server can be started on it")
      ->required()
      ->type_name("");
  parse(app, argc, argv);
  return options;
}

TokenOptions parse_token_options(int argc, char** argv) {
  TokenOptions options;
  CLI::App app("Makes a token for a client: prints it, once, and adds its hash to the file.",
               "dotresize-server token");
  app.add_option("--tokens", options.tokens, "File with the hashes of clients' tokens")
      ->required()
      ->type_name("FILE")
      ->envname("DOTRESIZE_TOKENS");
  app.add_option("NAME", options.name, "Whose it is")->required()->type_name("");
  CLI::Option* role = app.add_option("ROLE", options.role, "read, submit or admin")->type_name("");
  app.add_flag(
      "--rotate", options.rotate,
      "Give NAME, which has a token, a new one of its role; the one before stays good until "
      "the next time");
  parse(app, argc, argv);
  if (options.rotate == (role->count() > 0)) {
    exit_after(app, CLI::ValidationError("ROLE", "is for a new name, and --rotate takes none"));
  }
  return options;
}

ServerOptions parse_options(int argc, char** argv) {
  ServerOptions options;
  options.state_dir = default_state_dir();
  RawOptions raw(options);
  std::string config_file;

  CLI::App app(
      "The dotresize coordinator: takes jobs over gRPC and runs them under mpirun, or has "
      "Slurm, Kubernetes or others run them.",
      "dotresize-server");
  app.set_version_flag("--version", kVersion)->configurable(false);
  app.get_help_ptr()->configurable(false);
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 takes the last run's, or any free")
      ->envname("DOTRESIZE_LISTEN")
      ->check(endpoint_fault)
      ->capture_default_str();
  CLI::Option* state = app.add_option("--state", options.state_dir, "Directory of the job table")
                           ->envname("DOTRESIZE_STATE")
                           ->capture_default_str();
  add_watching_options(app, options);
  add_access_options(app, options);
  add_remote_options(app, options);
  add_caller_options(app, options);
  add_limit_options(app, options, raw);
  add_launcher_options(app, options, raw);
  app.add_option("--config", config_file, "YAML file with these options")
      ->envname("DOTRESIZE_CONFIG")
      ->check(CLI::ExistingFile)
      ->configurable(false);
  try {
    app.parse(argc, argv);
    if (!config_file.empty()) apply_config_file(config_file, app);
    if (options.state_dir.empty()) throw CLI::RequiredError(state->get_name());
    take_launchers(raw.launchers, options,
                   [&](const char* option) { return app.get_option(option)->count() > 0; });
  } catch (const CLI::ParseError& error) {
    exit_after(app, error);
  } catch (const YAML::Exception& error) {
    exit_after(app, CLI::ConfigError(config_file + ": " + error.what()));
  }
  options.state_dir = std::filesystem::absolute(options.state_dir);
  raw.set_times(options);
  return options;
}

}  // namespace dotresize
