#include "server/pusher.h"

#include <utility>

#include "base/errors.h"
#include "server/remote_policy.h"

namespace dotresize {

PushStatus Pusher::poll(const v1::Job& job) {
  std::unique_ptr<Push>& push = pushes_[job.id()];
  if (!push) {
    push = std::make_unique<Push>();
    const v1::Output& output = job.spec().output();
    std::vector<std::string> command =
        push_command(cache_.output_for(output.path()), output.path(), output.overwrite(),
                     shown_paths(copies_of(job), job.spec(), cache_));
    push->thread = std::jthread(
        [state = push.get(), command = std::move(command)](const std::stop_token& stop) {
          TransferOutput told("push", [&](const v1::Progress& progress) {
            const std::lock_guard lock(state->mutex);
            state->status.progress = progress;
          });
          PushStatus end;
          end.ended = true;
          try {
            end.revision = run_transfer(command, told, stop).revision;
          } catch (const TransferError& error) {
            end.error = error;
          } catch (const std::exception& error) {
            end.error = TransferError("FAILED", error.what());
          }
          const std::lock_guard lock(state->mutex);
          end.progress = state->status.progress;
          state->status = end;
        });
  }
  const std::lock_guard lock(push->mutex);
  return push->status;
}

}  // namespace dotresize
