#include "base/files/capped_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/process/child_process.h"

namespace dotresize {
namespace {

constexpr size_t kTailBytes = size_t{64} * 1024;

}  // namespace

CappedFile::CappedFile(UniqueFd file, int64_t limit) : file_(std::move(file)), left_(limit) {}

CappedFile::~CappedFile() { finish(); }

void CappedFile::add(std::string_view data) {
  const auto kept = static_cast<size_t>(std::min<int64_t>(left_, std::ssize(data)));
  write(data.substr(0, kept));
  left_ -= static_cast<int64_t>(kept);
  data.remove_prefix(kept);
  dropped_ += std::ssize(data);
  tail_ += data;
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

void CappedFile::finish() {
  const int64_t lost = std::exchange(dropped_, 0) - std::ssize(tail_);
  if (tail_.empty()) return;
  if (lost > 0) {
    write("\ndotresize: the log has reached its limit; " + std::to_string(lost) +
          " bytes are left out here\n");
  }
  write(std::exchange(tail_, ""));
}

void CappedFile::write(std::string_view data) const {
  while (!data.empty()) {
    const ssize_t written = ::write(file_.get(), data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data.remove_prefix(static_cast<size_t>(written));
  }
}

CappedLog::CappedLog(UniqueFd file, int64_t limit) : file_(std::move(file), limit) {
  Pipe ends = make_pipe();
  read_end_ = std::move(ends.read_end);
  write_end_ = std::move(ends.write_end);
}

CappedLog::~CappedLog() { finish(); }

void CappedLog::start() {
  thread_ = std::thread([this] {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t got = ::read(read_end_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      file_.add({buffer.data(), static_cast<size_t>(got)});
    }
    file_.finish();
  });
}

void CappedLog::finish() {
  write_end_ = UniqueFd();
  if (thread_.joinable()) thread_.join();
}

}  // namespace dotresize
