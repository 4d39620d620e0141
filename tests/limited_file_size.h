#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace dotresize {

/// Keeps files of this process from growing beyond `bytes` during its lifetime. A write beyond the
/// limit fails with EFBIG, much as it fails with ENOSPC on a full disk.
class LimitedFileSize {
 public:
  explicit LimitedFileSize(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LimitedFileSize() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  LimitedFileSize(const LimitedFileSize&) = delete;
  LimitedFileSize& operator=(const LimitedFileSize&) = delete;

 private:
  rlimit before_ = {};
  sighandler_t handler_;
};

}  // namespace dotresize
