#include "worker/commands/kept_states.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <charconv>
#include <utility>

#include "base/errors.h"

namespace dotresize {

KeptStates::KeptStates(Journal& journal, std::string name)
    : journal_(journal), name_(std::move(name)) {
  for (const std::string& entry : journal_.entries()) {
    if (entry.starts_with(name_ + "-")) find(entry);
  }
}

bool KeptStates::complete(int64_t microbatches) const {
  return std::ssize(views_) == microbatches &&
         (microbatches == 0 || views_.rbegin()->first == microbatches - 1);
}

void KeptStates::put(int64_t first, const std::vector<at::Tensor>& states) {
  const std::string entry = name_ + "-" + std::to_string(first);
  std::map<std::string, at::Tensor> tensors;
  for (const at::Tensor& microbatch : states) {
    tensors.emplace(std::to_string(first++), microbatch);
  }
  journal_.put(entry, tensors);
  find(entry);
}

at::Tensor KeptStates::get(int64_t microbatch) const { return views_.at(microbatch); }

void KeptStates::find(const std::string& entry) {
  for (const auto& [name, view] : journal_.get(entry)) {
    int64_t microbatch = -1;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data(), end, microbatch);
    if (parsed.ec != std::errc() || parsed.ptr != end || microbatch < 0) {
      throw InputError(
          fmt::format("{} of the journal: {} is not the number of a microbatch", entry, name));
    }
    views_[microbatch] = view;
  }
}

}  // namespace dotresize
