#include "worker/cuda/gpu_support.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

namespace dotresize {

GpuCode gpu_code(const std::string& flags) {
  static const std::regex kCode("code=(sm|compute)_([0-9]{2,3})(?![0-9a-z])");
  GpuCode code;
  for (std::sregex_iterator found(flags.begin(), flags.end(), kCode), end; found != end; ++found) {
    (found->str(1) == "sm" ? code.binaries : code.portable).push_back(std::stoi(found->str(2)));
  }
  return code;
}

std::string why_no_code_for(int capability, const GpuCode& code) {
  const bool binary = std::ranges::any_of(code.binaries, [capability](int one) {
    return one / 10 == capability / 10 && one <= capability;
  });
  const bool portable =
      std::ranges::any_of(code.portable, [capability](int one) { return one <= capability; });
  if (binary || portable) return "";
  return fmt::format(
      "libtorch has no kernels for sm_{}, only for sm_{}: install a torch that has them",
      capability, fmt::join(code.binaries, ", sm_"));
}

}  // namespace dotresize
