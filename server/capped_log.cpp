#include "server/capped_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "server/files.h"

namespace dotresize {
namespace {

constexpr size_t kTailBytes = size_t{64} * 1024;

}  // namespace

CappedLog::CappedLog(UniqueFd file, int64_t limit) : file_(std::move(file)), left_(limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe of the log");
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
}

CappedLog::~CappedLog() { finish(); }

void CappedLog::start() {
  thread_ = std::thread([this] { copy(); });
}

void CappedLog::finish() {
  write_end_ = UniqueFd();
  if (thread_.joinable()) thread_.join();
}

void CappedLog::copy() {
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(read_end_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    take({buffer.data(), static_cast<size_t>(got)});
  }
  if (dropped_ == 0) return;
  const auto lost = dropped_ - static_cast<int64_t>(tail_.size());
  write("\ndotresize-server: the log has reached its limit; " + std::to_string(lost) +
        " bytes are left out here\n");
  write(tail_);
}

void CappedLog::take(std::string_view data) {
  const auto kept = static_cast<size_t>(std::min<int64_t>(left_, std::ssize(data)));
  write(data.substr(0, kept));
  left_ -= static_cast<int64_t>(kept);
  data.remove_prefix(kept);
  dropped_ += std::ssize(data);
  tail_ += data;
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

void CappedLog::write(std::string_view data) const {
  while (!data.empty()) {
    const ssize_t written = ::write(file_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace dotresize
