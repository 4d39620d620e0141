#include "client/calls/fetch.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/errors.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/partial_path.h"
#include "base/phase_clock.h"
#include "base/text/printable.h"
#include "base/text/sha256.h"
#include "client/calls/rpc_error.h"
#include "client/calls/server_stream.h"

namespace dotresize {
namespace fs = std::filesystem;
namespace {

/// File in DIR.partial, until it is complete, that names the fetch it belongs to.
constexpr char kFetchFile[] = ".dotresize-fetch.json";
constexpr uint64_t kMaxFetchFileBytes = 4096;

std::string description_of(const FetchRequest& request) {
  return nlohmann::json{{"job", request.id}, {"model", request.model}}.dump() + "\n";
}

/// Opens DIR.partial, a new one or that of an earlier call of this fetch.
fs::path open_partial(const FetchRequest& request) {
  if (fs::exists(fs::symlink_status(request.dir))) {
    throw InputError(request.dir.string() + " exists already: name another directory");
  }
  fs::path partial = partial_path(request.dir);
  fs::create_directories(partial);
  const fs::path file = partial / kFetchFile;
  if (fs::is_empty(partial)) write_file_atomically(file, description_of(request));
  const bool own = !fs::is_symlink(partial) && fs::exists(file) &&
                   read_whole_file(file, kMaxFetchFileBytes) == description_of(request);
  if (own) return partial;
  throw InputError(partial.string() +
                   " is not what an earlier fetch of these files has left: remove it, or name "
                   "another directory");
}

uint64_t size_of_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return 0;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

bool is_whole(const fs::path& path, const v1::Artifact& artifact) {
  return size_of_file(path) == static_cast<uint64_t>(artifact.size()) &&
         (artifact.sha256().empty() || sha256_of_file(path) == artifact.sha256());
}

/// Shows the progress in bytes of all files together.
class ByteProgress {
 public:
  ByteProgress(ProgressDisplay& display, int64_t total) : display_(display), total_(total) {}

  /// Counts bytes that need not be fetched.
  void skip(int64_t bytes) { done_ += bytes; }
  void add(int64_t bytes) {
    done_ += bytes;
    fetched_ += bytes;
    if (seconds_since(shown_) >= 0.2 || done_ >= total_) show();
  }
  void show() {
    shown_ = std::chrono::steady_clock::now();
    const double rate = static_cast<double>(fetched_) / std::max(1e-3, seconds_since(start_));
    v1::Progress progress;
    progress.set_phase("fetch");
    progress.set_fraction(total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_)
                                     : 1.0);
    progress.set_eta_s(rate > 0.0 ? static_cast<double>(total_ - done_) / rate : -1.0);
    display_.show(progress);
  }

 private:
  ProgressDisplay& display_;
  const int64_t total_;
  int64_t done_ = 0;
  int64_t fetched_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_;
};

class Fetcher {
 public:
  Fetcher(Connection& connection, const FetchRequest& request, ByteProgress& progress,
          ProgressDisplay& display, const std::function<bool()>& interrupted,
          const FollowOptions& options)
      : connection_(connection),
        id_(request.id),
        progress_(progress),
        display_(display),
        interrupted_(interrupted),
        options_(options),
        backoff_(options.first_pause, options.max_pause, options.patience) {}

  /// Fetches one file. Returns false if interrupted.
  bool fetch(const fs::path& path, const v1::Artifact& artifact) {
    if (size_of_file(path) > static_cast<uint64_t>(artifact.size())) fs::remove(path);
    const auto begun = static_cast<int64_t>(size_of_file(path));
    progress_.skip(begun);
    if (!receive(path, artifact)) return false;
    if (is_whole(path, artifact)) return true;
    fs::remove(path);
    if (begun == 0) throw broken(artifact, "have not the hash that it lists");
    progress_.skip(-artifact.size());  // the old file had other content
    return fetch(path, artifact);
  }

 private:
  RpcError broken(const v1::Artifact& artifact, const std::string& what) const {
    return RpcError(grpc::Status(grpc::DATA_LOSS,
                                 "the bytes of " + artifact.name() + " that the server sends " +
                                     what + ": the file was changed since the job wrote it"),
                    connection_.server());
  }

  bool receive(const fs::path& path, const v1::Artifact& artifact) {
    fs::create_directories(path.parent_path());
    OutputFile file(
        path, fs::exists(path) ? OutputFile::Mode::kMustExist : OutputFile::Mode::kMustNotExist);
    auto offset = static_cast<int64_t>(size_of_file(path));
    while (offset < artifact.size() && !interrupted_()) {
      const grpc::Status status = stream(file, artifact, offset);
      if (offset >= artifact.size() || interrupted_()) break;
      const grpc::Status end =
          status.ok() ? grpc::Status(grpc::UNAVAILABLE, "the stream ended early") : status;
      await(RpcError(end, connection_.server()));
    }
    file.close();
    return offset >= artifact.size();
  }

  /// Writes received chunks to the file and advances `offset`.
  grpc::Status stream(OutputFile& file, const v1::Artifact& artifact, int64_t& offset) {
    using Stream = ServerStream<v1::ArtifactChunk>;
    v1::GetArtifactRequest request;
    request.set_id(id_);
    request.set_name(artifact.name());
    request.set_offset(offset);
    Stream stream(
        [&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
          connection_.identify(*context);
          return connection_.stub().PrepareAsyncGetArtifact(context, request, queue);
        },
        options_.stream_deadline);
    v1::ArtifactChunk chunk;
    while (!interrupted_()) {
      const Stream::Next next = stream.next(chunk, options_.tick);
      if (next == Stream::Next::kEnd) return stream.status();
      if (next == Stream::Next::kTimeout) {
        display_.tick();
        continue;
      }
      backoff_.reset();
      take(file, artifact, chunk, offset);
    }
    return grpc::Status::OK;
  }

  void take(OutputFile& file, const v1::Artifact& artifact, const v1::ArtifactChunk& chunk,
            int64_t& offset) {
    const v1::Artifact& now = chunk.artifact();
    if (chunk.has_artifact() &&
        (now.size() != artifact.size() || now.sha256() != artifact.sha256())) {
      throw broken(artifact, "are not those that it has listed");
    }
    if (std::ssize(chunk.data()) > artifact.size() - offset) {
      throw broken(artifact, "are more than it has listed");
    }
    file.write(chunk.data().data(), chunk.data().size(), static_cast<uint64_t>(offset));
    offset += std::ssize(chunk.data());
    progress_.add(std::ssize(chunk.data()));
  }

  /// Waits for the server; throws `error` if waiting does not help.
  void await(const RpcError& error) {
    const auto pause = is_transient(error.code()) ? backoff_.next() : std::nullopt;
    if (!pause) throw error;
    if (error.code() != grpc::DEADLINE_EXCEEDED) {
      display_.show_event("the server is away: waiting for it to come back");
    }
    connection_.wait(*pause, options_.tick, interrupted_);
  }

  Connection& connection_;
  const std::string id_;
  ByteProgress& progress_;
  ProgressDisplay& display_;
  const std::function<bool()>& interrupted_;
  const FollowOptions& options_;
  Backoff backoff_;
};

/// Checks the listed names and sizes: the server is not trusted for local writes.
void require_sound(const std::vector<v1::Artifact>& artifacts) {
  for (const v1::Artifact& artifact : artifacts) {
    const std::string name = in_quotes(artifact.name());
    if (!stays_inside(artifact.name()) || artifact.name() == kFetchFile || artifact.size() < 0) {
      throw InputError("the server lists a file " + name + ", which cannot be one");
    }
    if (!artifact.fault().empty()) {
      throw InputError(name + " of the job cannot be fetched: " + printable(artifact.fault()));
    }
  }
}

}  // namespace

bool fetch_artifacts(Connection& connection, const FetchRequest& request,
                     const std::vector<v1::Artifact>& artifacts, ProgressDisplay& display,
                     const std::function<bool()>& interrupted, const FollowOptions& options) {
  require_sound(artifacts);
  const fs::path partial = open_partial(request);
  int64_t total = 0;
  for (const v1::Artifact& artifact : artifacts) total += artifact.size();
  ByteProgress progress(display, total);
  Fetcher fetcher(connection, request, progress, display, interrupted, options);
  for (const v1::Artifact& artifact : artifacts) {
    if (!fetcher.fetch(partial / artifact.name(), artifact)) return false;
  }
  progress.show();
  display.clear();
  fs::remove(partial / kFetchFile);
  sync_directory(partial);
  fs::rename(partial, request.dir);
  sync_directory(fs::absolute(request.dir).parent_path());
  return true;
}

}  // namespace dotresize
