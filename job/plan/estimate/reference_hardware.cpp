#include "job/plan/estimate/reference_hardware.h"

#include <string>
#include <string_view>

#include "job/plan/estimate/hardware.h"
#include "job/plan/estimate/hardware_files.h"

namespace dotresize {
namespace {

constexpr int kAmpere = 80;
constexpr int kHopper = 90;

std::string_view text_for(const DeviceFacts& facts) {
  if (facts.device == DeviceKind::kCpu) return cpu_yaml();
  if (facts.least_capability >= kHopper) return h100x1_yaml();
  return facts.least_capability >= kAmpere ? a100x8_yaml() : v100x8_yaml();
}

/// Adds rates that the machine of the file has no use for. Any value is as good.
void add_missing(v1::Hardware& hardware) {
  v1::Hardware::Gemm& gemm = *hardware.mutable_gemm();
  if (!gemm.has_float16()) gemm.set_float16(gemm.float32());
  if (!gemm.has_bfloat16()) gemm.set_bfloat16(gemm.float32());
  if (!hardware.has_link()) hardware.set_link(hardware.host().to_device());
}

}  // namespace

v1::Hardware reference_hardware(const DeviceFacts& facts) {
  v1::Hardware hardware = parse_hardware(std::string(text_for(facts)),
                                         "the built-in rates of " + to_string(facts.device));
  add_missing(hardware);
  return hardware;
}

}  // namespace dotresize
