// The verb fetch: fetches the files of an ended job over the API.
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/file_changes.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/phase_clock.h"
#include "base/process/program.h"
#include "base/text/human_text.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "client/calls/follow.h"
#include "client/calls/server_stream.h"
#include "client/display/progress_display.h"
#include "client/verbs/verb.h"

namespace dotresize {
namespace {

namespace fs = std::filesystem;

struct FetchRequest {
  std::string id;             ///< id of an ended job
  std::filesystem::path dir;  ///< directory to create
  bool model = false;         ///< false: no files of the model itself
};

/// File in DIR.partial, until it is complete, that names the fetch it belongs to.
constexpr char kFetchFile[] = ".dotresize-fetch.json";
constexpr uint64_t kMaxFetchFileBytes = 4096;

/// Opens DIR.partial, a new one or that of an earlier call of this fetch.
fs::path open_partial(const FetchRequest& request) {
  if (fs::exists(fs::symlink_status(request.dir))) {
    throw InputError(request.dir.string() + " exists already: name another directory");
  }
  const std::string description =
      nlohmann::json{{"job", request.id}, {"model", request.model}}.dump() + "\n";
  fs::path partial = partial_path(request.dir);
  files::create_directories(partial);
  const fs::path file = partial / kFetchFile;
  if (fs::is_empty(partial)) write_file_atomically(file, description);
  const bool own = !fs::is_symlink(partial) && fs::exists(file) &&
                   read_whole_file(file, kMaxFetchFileBytes) == description;
  if (own) return partial;
  throw InputError(partial.string() +
                   " was not left by an earlier fetch of these files: remove it, or name another "
                   "directory");
}

uint64_t size_of_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return 0;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

/// Shows the progress in bytes of all files together.
struct ByteProgress {
  ProgressDisplay& display;
  const int64_t total;
  int64_t done = 0;     ///< with those that need not be fetched
  int64_t fetched = 0;  ///< those alone that were
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown = {};

  void show() {
    shown = std::chrono::steady_clock::now();
    const double rate = static_cast<double>(fetched) / std::max(1e-3, seconds_since(start));
    v1::Progress progress;
    progress.set_phase("fetch");
    progress.set_fraction(total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1.0);
    progress.set_eta_s(rate > 0.0 ? static_cast<double>(total - done) / rate : -1.0);
    display.show(progress);
  }
};

struct Fetcher {
  const std::string& id;
  ByteProgress& progress;
  Reconnection& reconnection;

  /// Fetches one file. Returns false if interrupted.
  bool fetch(const fs::path& path, const v1::Artifact& artifact) {
    if (size_of_file(path) > static_cast<uint64_t>(artifact.size())) files::remove(path);
    const auto begun = static_cast<int64_t>(size_of_file(path));
    progress.done += begun;
    files::create_directories(path.parent_path());
    OutputFile file(
        path, fs::exists(path) ? OutputFile::Mode::kMustExist : OutputFile::Mode::kMustNotExist);
    int64_t offset = begun;
    const auto receive = [&] {
      if (offset >= artifact.size()) return true;
      v1::GetArtifactRequest request;
      request.set_id(id);
      request.set_name(artifact.name());
      request.set_offset(offset);
      ServerStream<v1::ArtifactChunk> stream(reconnection.connection,
                                             &v1::Jobs::Stub::PrepareAsyncGetArtifact, request,
                                             reconnection.options.stream_deadline);
      const grpc::Status status = stream.read(
          reconnection.interrupted, reconnection.options.tick, [&] { progress.display.tick(); },
          [&](const v1::ArtifactChunk& chunk) {
            reconnection.heard();
            take(file, artifact, chunk, offset);
          });
      if (offset >= artifact.size() || reconnection.interrupted()) return true;
      throw RpcError::of_stream(status, reconnection.connection.server());
    };
    reconnection.run(
        receive, [](const RpcError& error) { return is_transient(error.code()); },
        [&](const RpcError& error) {
          if (error.code() == grpc::DEADLINE_EXCEEDED) return;
          progress.display.show_event(kAway);
        });
    file.close();
    if (offset < artifact.size()) return false;
    const bool whole = static_cast<int64_t>(size_of_file(path)) == artifact.size();
    const std::string& sha256 = artifact.sha256();
    if (whole && (sha256.empty() || sha256_of_file(path) == sha256)) return true;
    files::remove(path);
    if (begun == 0) throw broken(artifact, "do not have the hash that it lists");
    progress.done -= artifact.size();  // the old file had other content
    return fetch(path, artifact);
  }

  void take(OutputFile& file, const v1::Artifact& artifact, const v1::ArtifactChunk& chunk,
            int64_t& offset) const {
    const v1::Artifact& now = chunk.artifact();
    if (chunk.has_artifact() &&
        (now.size() != artifact.size() || now.sha256() != artifact.sha256())) {
      throw broken(artifact, "are not those that it listed");
    }
    const auto size = std::ssize(chunk.data());
    if (size > artifact.size() - offset) throw broken(artifact, "are more than it listed");
    file.write(chunk.data().data(), chunk.data().size(), static_cast<uint64_t>(offset));
    offset += size;
    progress.done += size;
    progress.fetched += size;
    if (seconds_since(progress.shown) >= 0.2 || progress.done >= progress.total) progress.show();
  }

  RpcError broken(const v1::Artifact& artifact, const std::string& what) const {
    return RpcError(grpc::Status(grpc::DATA_LOSS,
                                 "the bytes of " + artifact.name() + " that the server sends " +
                                     what + ": the file was changed since the job wrote it"),
                    reconnection.connection.server());
  }
};

/// Checks the listed names and sizes: the server is not trusted for local writes.
void require_sound(const std::vector<v1::Artifact>& artifacts) {
  for (const v1::Artifact& artifact : artifacts) {
    const std::string name = in_quotes(artifact.name());
    if (!stays_inside(artifact.name()) || artifact.name() == kFetchFile || artifact.size() < 0) {
      throw InputError("the server lists a file " + name + ", which is not a valid name or size");
    }
    if (!artifact.fault().empty()) {
      throw InputError(name + " of the job cannot be fetched: " + printable(artifact.fault()));
    }
  }
}

/// Fetches the files of a job into DIR.partial, and renames it to DIR once all files are complete
/// and have the hashes that the server lists. Files left there by an earlier call are not fetched
/// again. Waits while the server is away, like watch_job. Returns false once `interrupted` returns
/// true. Throws InputError if DIR exists or if DIR.partial belongs to another fetch, and RpcError,
/// with DATA_LOSS for a file whose bytes do not match its hash.
bool fetch_artifacts(Connection& connection, const FetchRequest& request,
                     const std::vector<v1::Artifact>& artifacts, ProgressDisplay& display,
                     const std::function<bool()>& interrupted) {
  require_sound(artifacts);
  const FollowOptions options;
  const fs::path partial = open_partial(request);
  int64_t total = 0;
  for (const v1::Artifact& artifact : artifacts) total += artifact.size();
  ByteProgress progress{display, total};
  Reconnection reconnection{connection, options, interrupted};
  Fetcher fetcher{request.id, progress, reconnection};
  for (const v1::Artifact& artifact : artifacts) {
    if (!fetcher.fetch(partial / artifact.name(), artifact)) return false;
  }
  progress.show();
  display.clear();
  files::remove(partial / kFetchFile);
  sync_directory(partial);
  files::rename(partial, request.dir);
  sync_directory(fs::absolute(request.dir).parent_path());
  return true;
}

void print_fetched(const FetchRequest& request, const std::vector<v1::Artifact>& artifacts,
                   const CommonOptions& common) {
  int64_t bytes = 0;
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const v1::Artifact& artifact : artifacts) {
    bytes += artifact.size();
    files.push_back(
        {{"name", artifact.name()}, {"size", artifact.size()}, {"sha256", artifact.sha256()}});
  }
  if (common.json()) {
    print_json({{"id", request.id},
                {"directory", fs::absolute(request.dir).string()},
                {"files", std::move(files)}});
  } else {
    std::cout << counted(std::ssize(artifacts), "file") << ", " << human_bytes(bytes) << ", in "
              << request.dir.string() << "\n";
  }
}

int fetch(FetchRequest request, const CommonOptions& common) {
  if (request.dir.filename().empty()) request.dir = request.dir.parent_path();  // "out/"
  Connection connection = common.connect();
  request.id = find_job_id(connection, request.id);
  v1::ListArtifactsRequest wanted;
  wanted.set_id(request.id);
  wanted.set_model(request.model);
  constexpr std::chrono::seconds kHashingDeadline{60};
  const auto listed = connection.call(&v1::Jobs::Stub::ListArtifacts, wanted, kHashingDeadline);
  const std::vector<v1::Artifact> artifacts(listed.artifacts().begin(), listed.artifacts().end());
  bool done = false;
  {
    const InterruptGuard guard;
    ProgressDisplay display;
    done = fetch_artifacts(connection, request, artifacts, display,
                           [&guard] { return guard.interrupted(); });
  }
  if (!done) {
    std::cerr << "stopped fetching; the same command continues from there\n";
    return kExitInterrupted;
  }
  print_fetched(request, artifacts, common);
  return kExitOk;
}

}  // namespace

Verb add_fetch_verb(CLI::App& app, CommonOptions& common) {
  CLI::App& command =
      add_server_verb(app, common, "fetch",
                      "Fetch the files of an ended job: report, model card, log; or its model",
                      "  dotresize fetch j-451f3da65440ea8f results\n"
                      "  dotresize fetch j-451f3da65440ea8f models/docs-llama-80 --model\n");
  auto request = std::make_shared<FetchRequest>();
  add_argument(command, "ID", request->id, kIdHelp);
  add_argument(command, "DIR", request->dir, "Directory to create");
  command.add_flag("--model", request->model,
                   "Fetch the whole model directory; the server must allow it");
  return {&command, [request, &common] { return fetch(*request, common); }};
}

}  // namespace dotresize
