#include "server/store/drain.h"

#include <utility>

#include "server/store/files.h"

namespace dotresize {

Drain::Drain(std::filesystem::path file)
    : file_(std::move(file)), on_(std::filesystem::exists(file_)) {}

void Drain::set(bool on) {
  if (on) {
    write_private_file(file_, "");
  } else {
    std::filesystem::remove(file_);
  }
  on_ = on;
}

}  // namespace dotresize
