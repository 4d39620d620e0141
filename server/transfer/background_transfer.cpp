#include "server/transfer/background_transfer.h"

#include <utility>

#include "base/errors.h"
#include "base/process/child_process.h"

namespace dotresize {
namespace {

constexpr std::chrono::seconds kNewsInterval{1};

}  // namespace

BackgroundTransfer::BackgroundTransfer(std::string phase, std::function<void(const Run&)> work)
    : thread_(
          [this, phase = std::move(phase), work = std::move(work)](const std::stop_token& stop) {
            const auto run = [&](const std::vector<std::string>& command) {
              TransferOutput output(phase, [this](const v1::Progress& progress) {
                const Lock lock(mutex_);
                status_.news = progress;
              });
              return output.result(run_program(command, output, stop));
            };
            std::optional<TransferError> error;
            try {
              work(run);
            } catch (const TransferError& failed) {
              error = failed;
            } catch (const ProgramMissing& missing) {
              error = TransferError("UNAVAILABLE", missing.what());
            } catch (const std::exception& other) {
              error = TransferError("FAILED", other.what());
            }
            const Lock lock(mutex_);
            status_ = {true, std::move(error), std::nullopt};
          }) {}

TransferStatus BackgroundTransfer::poll() {
  const Lock lock(mutex_);
  TransferStatus status = status_;
  const Clock::time_point now = Clock::now();
  if (status.news && now < told_ + kNewsInterval) {
    status.news.reset();
  } else if (status.news) {
    told_ = now;
    status_.news.reset();
  }
  return status;
}

}  // namespace dotresize
