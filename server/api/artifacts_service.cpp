// Calls of the Jobs service about files of ended jobs.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/process/work_budget.h"
#include "server/access/request_budget.h"
#include "server/api/artifacts.h"
#include "server/api/jobs_service.h"
#include "server/common/api_error.h"

namespace dotresize {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;

/// Error of a file that is not what the job has written.
ApiError changed(const std::string& name, const InputError& error) {
  return ApiError(grpc::StatusCode::FAILED_PRECONDITION, "ARTIFACT_CHANGED",
                  name + " is not what the job wrote: " + error.what(), {{"name", name}});
}

/// Sends the description of a file, then its content from `offset` on. Everything that waits for
/// the file's disk, opening it too, is left to fill(), on a thread of the pump.
class ArtifactStream final : public PumpedStream<v1::ArtifactChunk> {
 public:
  /// `open` throws ApiError.
  ArtifactStream(StreamPump& pump, std::function<OpenArtifact()> open, int64_t offset)
      : PumpedStream(pump, "GetArtifact"), open_(std::move(open)), offset_(offset) {}

 private:
  bool fill(std::deque<v1::ArtifactChunk>& pending) override {
    const bool begins = !artifact_;
    if (begins) artifact_ = open_();
    try {
      v1::ArtifactChunk chunk;
      if (begins) {
        *chunk.mutable_artifact() = JobArtifacts::describe(artifact_->entry, artifact_->file);
      } else {
        chunk.set_data(artifact_->file.read(offset_, kChunkBytes));
        if (chunk.data().empty()) return true;
        offset_ += std::ssize(chunk.data());
      }
      chunk.set_next_offset(offset_);
      pending.push_back(std::move(chunk));
      return false;
    } catch (const InputError& error) {
      throw changed(artifact_->entry.name, error);
    }
  }

  const std::function<OpenArtifact()> open_;
  std::optional<OpenArtifact> artifact_;
  int64_t offset_;
};

}  // namespace

void JobsService::require_model(const Caller& caller, const v1::Job& job) const {
  if (!parts_.models_leave) {
    throw ApiError(grpc::StatusCode::PERMISSION_DENIED, "MODELS_STAY",
                   "this server does not hand out models (--allow-model-fetch)");
  }
  require_owner(caller, job.owner());
}

OpenArtifact JobsService::open_artifact(const std::string& id, const std::string& name) {
  const v1::Job job = stored(id);
  const JobArtifacts artifacts(job, parts_.store, parts_.state);
  const auto entry = std::ranges::find(artifacts.entries(), name, &JobArtifacts::Entry::name);
  if (entry == artifacts.entries().end()) {
    throw ApiError(grpc::StatusCode::NOT_FOUND, "NO_ARTIFACT",
                   "job " + id + " has no such file; ListArtifacts lists its files", {{"id", id}});
  }
  try {
    return {*entry, artifacts.open_entry(*entry)};
  } catch (const InputError& error) {
    throw changed(entry->name, error);
  }
}

grpc::Status JobsService::ListArtifacts(grpc::ServerContext* context,
                                        const v1::ListArtifactsRequest* request,
                                        v1::ListArtifactsResponse* response) {
  const auto list = [&](const Caller& caller, const std::string& id) {
    const v1::Job job = stored(id);
    if (request->model()) require_model(caller, job);
    const JobArtifacts artifacts(job, parts_.store, parts_.state);
    using Part = JobArtifacts::Part;
    bool has_model = false;
    for (const JobArtifacts::Entry& entry : artifacts.entries()) {
      WorkBudget::check();
      if (entry.part == (request->model() ? Part::kJob : Part::kModel)) continue;
      has_model |= entry.part == Part::kModel;
      v1::Artifact& artifact = *response->add_artifacts();
      try {
        artifact = JobArtifacts::describe(entry, artifacts.open_entry(entry));
      } catch (const InputError& error) {
        artifact.set_name(entry.name);
        artifact.set_fault(error.what());
      }
    }
    if (!request->model() || has_model) return;
    throw ApiError(
        grpc::StatusCode::FAILED_PRECONDITION, "NO_MODEL",
        "job " + id +
            " has no model to fetch: it made none, is a sweep, or its output has since been "
            "replaced",
        {{"id", id}});
  };
  const Role least = request->model() ? Role::kSubmit : Role::kRead;
  return parts_.gate.serve("ListArtifacts", origin_of(*context), least, request->id(), list);
}

grpc::ServerWriteReactor<v1::ArtifactChunk>* JobsService::GetArtifact(
    grpc::CallbackServerContext* context, const v1::GetArtifactRequest* request) {
  StreamKind kind{"GetArtifact", Role::kRead, parts_.transfers};
  if (!JobArtifacts::is_for_readers(request->name())) {
    kind.least = Role::kSubmit;
    kind.condition = [this, id = request->id()](const Caller& caller) {
      require_model(caller, stored(id));
    };
  }
  const auto make = [&](const std::string& holder) {
    if (request->offset() < 0) throw invalid_argument("offset", "is negative");
    const auto open = [this, holder, asked = *request] {
      const RequestBudget budget(parts_.gate.resources(), holder);
      OpenArtifact artifact = open_artifact(asked.id(), asked.name());
      if (asked.offset() <= artifact.file.size()) return artifact;
      throw ApiError(grpc::StatusCode::OUT_OF_RANGE, "BEYOND_THE_END",
                     "offset: " + std::to_string(asked.offset()) + " is beyond the end of " +
                         artifact.entry.name + ", " + std::to_string(artifact.file.size()),
                     {{"field", "offset"}});
    };
    return std::make_shared<ArtifactStream>(parts_.transfers, open, request->offset());
  };
  return start_stream<v1::ArtifactChunk>(kind, *context, request->id(), make);
}

grpc::Status JobsService::ReadArtifact(const CallOrigin& origin, const std::string& id,
                                       const std::string& name,
                                       const std::function<void(ArtifactFile)>& take) {
  return parts_.gate.serve("GetArtifact", origin, Role::kRead, id,
                           [&](const Caller&, const std::string&) {
                             if (!JobArtifacts::is_for_readers(name)) {
                               throw ApiError(grpc::StatusCode::NOT_FOUND, "NO_ARTIFACT",
                                              "no such file here; models are fetched over gRPC");
                             }
                             take(open_artifact(id, name).file);
                           });
}

}  // namespace dotresize
