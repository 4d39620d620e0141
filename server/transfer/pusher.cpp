#include "server/transfer/pusher.h"

#include <utility>

namespace dotresize {
namespace {

constexpr size_t kMostPushes = 4;  // limit at a time

}  // namespace

Pusher::~Pusher() {
  for (auto& [id, push] : pushes_) push.transfer->request_stop();
}

PushStatus Pusher::poll(const v1::Job& job, const OutputRights& rights) {
  if (!pushes_.contains(job.id())) {
    if (pushes_.size() >= kMostPushes) return {};
    const v1::Output& output = job.spec().output();
    std::vector<std::string> command =
        push_command(cache_.output_for(output.path()), {output.path(), output.overwrite(), rights});
    Push& push = pushes_[job.id()];
    push.transfer = std::make_unique<BackgroundTransfer>(
        kPushPhase, [&push, command = std::move(command)](const BackgroundTransfer::Run& run) {
          push.revision = run(command).revision;
        });
  }
  return status_of(job.id());
}

PushStatus Pusher::stop(const std::string& id) {
  const auto push = pushes_.find(id);
  if (push == pushes_.end()) {
    return {{true, TransferError(TransferError::kCancelled, "not begun"), std::nullopt}};
  }
  push->second.transfer->request_stop();
  return status_of(id);
}

PushStatus Pusher::status_of(const std::string& id) {
  const auto push = pushes_.find(id);
  PushStatus status{push->second.transfer->poll()};
  if (!status.ended) return status;
  if (!status.error) status.revision = push->second.revision;
  pushes_.erase(push);
  return status;
}

}  // namespace dotresize
