#include "server/store/capped_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "server/store/files.h"

namespace dotresize {

CappedLog::CappedLog(UniqueFd file, int64_t limit) : file_(std::move(file), limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe of the log");
  read_end_ = UniqueFd(ends[0]);
  write_end_ = UniqueFd(ends[1]);
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
