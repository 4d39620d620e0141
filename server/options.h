#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "server/access/certificates.h"
#include "server/access/remote_policy.h"
#include "server/http/webhooks.h"
#include "server/launch/launcher.h"
#include "server/log_format.h"
#include "server/store/job_store.h"

namespace dotresize {

/// Options of dotresize-server. Precedence: flag > environment (DOTRESIZE_LISTEN, ...) > the YAML
/// file of --config (key `max_ranks` for --max-ranks) > the default here.
struct ServerOptions {
  std::string listen = "127.0.0.1:50051";  ///< HOST:PORT; port 0: that of the last run, or any
  std::string http;                        ///< HOST:PORT of pages, health and metrics; empty: none
  LogFormat log_format = LogFormat::kText;
  std::filesystem::path state_dir;  ///< default: $XDG_STATE_HOME/dotresize or ~/.local/...
  TlsFiles tls;                     ///< of the connections of clients
  std::filesystem::path tokens;     ///< of clients (access.h); empty: they need none
  bool insecure =
      false;  ///< an address that others reach, though clients need not say who they are
  std::vector<std::filesystem::path>
      allow_roots;                 ///< where jobs may read and write; none: anywhere
  bool allow_model_fetch = false;  ///< GetArtifact also sends models
  RemoteOptions remote;
  WebhookOptions webhooks;
  std::string log_level = "info";             ///< of spdlog: debug, info, warn or error
  int max_ranks = 8;                          ///< running at the same time, over all jobs
  int gpus = -1;                              ///< that jobs may have; negative: all that are found
  int64_t memory = 0;                         ///< bytes of all jobs together; 0: what there is
  int max_queued = JobStore::kMaxQueuedJobs;  ///< jobs of one owner that wait
  int max_rate = 200;                         ///< calls of one caller a second; 0: any
  int max_streams = 256;                      ///< open streams of one caller
  int max_attempts = 3;                       ///< of a job whose processes are lost or killed
  std::chrono::seconds retry_delay{10};       ///< before the second one; doubled with each
  mode_t job_umask = 022;  ///< of what jobs write: that of who started the server
  std::chrono::seconds heartbeat_timeout{60};  ///< longest silence of a running job
  /// What may start jobs; the first one those that ask for none.
  std::vector<v1::Resources::Launcher> launchers = {v1::Resources::local};
  std::string workers;  ///< HOST:PORT where ranks on other machines call; empty: none do
  std::filesystem::path workers_ca;  ///< PEM of the authority by which they know the server
  int max_remote_jobs = 100;         ///< launched at once by other launchers than local
  SlurmOptions slurm;
  KubernetesOptions kubernetes;
  std::chrono::seconds external_timeout{0};  ///< see LauncherContext
};

/// The program is to end now with this code: --help, or a usage error that was already printed.
struct ExitNow {
  int code;
};

/// Throws ExitNow.
ServerOptions parse_options(int argc, char** argv);

/// Of `dotresize-server backup`.
struct BackupOptions {
  std::filesystem::path state_dir;
  std::filesystem::path target;
};

/// `argv` begins with "backup". Throws ExitNow.
BackupOptions parse_backup_options(int argc, char** argv);

/// Of `dotresize-server token`.
struct TokenOptions {
  std::filesystem::path tokens;
  std::string name;
  std::string role;
  bool rotate = false;  ///< a new token for a name that has one
};

/// `argv` begins with "token". Throws ExitNow.
TokenOptions parse_token_options(int argc, char** argv);

}  // namespace dotresize
