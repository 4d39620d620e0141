// dotresize-server: the coordinator. Takes jobs over gRPC, stores them in SQLite, and starts them
// through launchers.
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string_view>

#include "base/errors.h"
#include "base/process/environment.h"
#include "base/process/program.h"
#include "server/access/access.h"
#include "server/common/log_format.h"
#include "server/common/memory_wait.h"
#include "server/launch/subcommands.h"
#include "server/options.h"
#include "server/server.h"
#include "server/store/state_dir.h"

namespace {

using namespace dotresize;

/// Ends the process if its parts are not gone in time, whatever they wait for: jobs, calls and
/// results are in the state directory, and the next start finds them.
void end_in_time() {
  constexpr unsigned kLongestStop = 15;  // seconds; calls are cut off after five
  std::signal(SIGALRM, [](int) {
    constexpr std::string_view kText =
        "a part of the server did not stop in time: ended without it\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
    ::_exit(kExitOk);
  });
  ::alarm(kLongestStop);
}

int serve(ServerOptions options) {
  set_up_log(options.log.format);
  spdlog::set_level(spdlog::level::from_str(options.log.level));
  options.job_umask = ::umask(077);  // logs and job files are private to the server's user
  limit_spinning();
  wait_for_memory();
  // Blocked in this thread and all later ones, for sigwait: SIGHUP reloads, the others stop.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  survive_file_size_limit();
  // The last user of the library waits at its end, up to ten seconds, for a thread that has watched
  // a large answer. This user has no end.
  grpc_init();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  Server server(options);
  std::cout << "listening on " << server.endpoint() << std::endl;
  if (!server.http_url().empty()) {
    std::cout << "health and metrics at " << server.http_url() << std::endl;
  }
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) server.reload();
  spdlog::info("stopping; running jobs continue, and the next start finds them again");
  end_in_time();
  return kExitOk;
}

/// Flushes what was printed. Throws ExitNow if it did not reach its reader.
void require_printed() {
  const int exit_code = checked_output("dotresize-server", kExitOk);
  if (exit_code != kExitOk) throw ExitNow{exit_code};
}

void change_tokens(const TokenOptions& options) {
  const auto show = [](const std::string& secret) {
    std::cout << secret << "\n";
    require_printed();
  };
  if (options.revoke) {
    revoke_tokens(options.tokens, options.name);
    std::cout << options.name << " has no token any more; a running server needs a SIGHUP\n";
    require_printed();
  } else if (options.rotate) {
    rotate_token(options.tokens, options.name, show);
  } else {
    add_token(options.tokens, options.name, role_of(options.role), show);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  if (argc > 1 && std::string_view(argv[1]) == "supervise") return supervise(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "sweep") return run_sweep_attempt(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "mpijob") return make_mpi_job_of_request();
  set_up_log(LogFormat::kText);
  try {
    if (argc > 1 && std::string_view(argv[1]) == "backup") {
      const BackupOptions options = parse_backup_options(argc - 1, argv + 1);
      ::umask(077);
      std::cout << back_up(options.state_dir, options.target) << " jobs copied to "
                << options.target.string() << "\n";
      require_printed();
      return kExitOk;
    }
    if (argc > 1 && std::string_view(argv[1]) == "token") {
      change_tokens(parse_token_options(argc - 1, argv + 1));
      return kExitOk;
    }
    return serve(parse_options(argc, argv));
  } catch (const ExitNow& exit) {
    return exit.code;
  } catch (const StateDirInUse& error) {
    spdlog::critical("{}", error.what());
    return kExitTryAgain;
  } catch (const InputError& error) {
    spdlog::critical("{}", error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    spdlog::critical("{}", error.what());
    return kExitUnavailable;
  }
}
