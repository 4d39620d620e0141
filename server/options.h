#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "server/access/webhook_policy.h"
#include "server/common/log_format.h"
#include "server/launch/launcher.h"
#include "server/store/resources.h"

namespace dotresize {

/// Options on who may call, and on which files.
struct AccessOptions {
  std::filesystem::path tls;     ///< directory of PEM files (certificates.h); empty: no TLS
  std::filesystem::path tokens;  ///< client token file (access.h); empty: no tokens needed
  /// Allows a non-loopback address without TLS or without client authentication.
  bool insecure = false;
  /// Directories that jobs may read and write; empty: anywhere.
  std::vector<std::filesystem::path> allow_roots;
  bool allow_model_fetch = false;  ///< lets GetArtifact send models too
  /// Prefixes of URLs that jobs may read and write; empty: none.
  std::vector<std::string> allow_remote;
};

/// Limits of callers and of jobs.
struct LimitOptions {
  int max_rate = 200;                    ///< calls of one caller per second; 0: no limit
  int max_ranks = 8;                     ///< ranks running at the same time, over all jobs
  int64_t memory = 0;                    ///< bytes for all jobs together; 0: usable memory
  int max_attempts = 3;                  ///< attempts of a job whose processes are lost or killed
  std::chrono::seconds retry_delay{10};  ///< delay before the second attempt; doubles each time
  std::chrono::seconds heartbeat_timeout{60};  ///< longest silence of a running job
};

/// Options on launchers, and on how ranks on other machines call.
struct LaunchOptions {
  /// Launchers that jobs may use; the first one is used for jobs that ask for none.
  std::vector<LauncherChoice> launchers = {{kLocalLauncher, ""}};
  std::string workers;  ///< HOST:PORT for ranks on other machines; empty: none
};

struct LogOptions {
  LogFormat format = LogFormat::kText;
  std::string level = "info";  ///< debug, info, warn or error
};

/// Options of dotresize-server. Precedence: flag > environment (DOTRESIZE_LISTEN, ...) > the YAML
/// file given by --config (key `max_ranks` for --max-ranks) > the default here.
struct ServerOptions {
  /// HOST:PORT; port 0: the last run's port if free, else any.
  std::string listen = "127.0.0.1:50051";
  std::string http;                 ///< HOST:PORT of web pages, health, metrics; empty: none
  std::filesystem::path state_dir;  ///< default: $XDG_STATE_HOME/dotresize or ~/.local/...
  AccessOptions access;
  LimitOptions limits;
  LaunchOptions launch;
  LogOptions log;
  WebhookOptions webhooks;
  mode_t job_umask = 022;  ///< umask of jobs: the one that the server was started with
};

/// Thrown to end the program with this exit code: after --help, or after a usage error that has
/// already been printed.
struct ExitNow {
  int code;
};

/// Throws ExitNow.
ServerOptions parse_options(int argc, char** argv);

/// Options of `dotresize-server backup`.
struct BackupOptions {
  std::filesystem::path state_dir;
  std::filesystem::path target;
};

/// Parses `argv`, which begins with "backup". Throws ExitNow.
BackupOptions parse_backup_options(int argc, char** argv);

/// Options of `dotresize-server token`.
struct TokenOptions {
  std::filesystem::path tokens;
  std::string name;
  std::string role;
  bool rotate = false;  ///< adds a new token for a name that has one
  bool revoke = false;  ///< removes all tokens of the name
};

/// Parses `argv`, which begins with "token". Throws ExitNow.
TokenOptions parse_token_options(int argc, char** argv);

}  // namespace dotresize
