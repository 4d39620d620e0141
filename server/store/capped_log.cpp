#include "server/store/capped_log.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/process/child_process.h"

namespace dotresize {

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
