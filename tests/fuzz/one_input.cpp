// Entry point of libFuzzer for the function DOTRESIZE_FUZZ_TARGET of targets.h.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/targets.h"

extern "C" {

/// Turns errors of UndefinedBehaviorSanitizer into signals, so that libFuzzer keeps the input.
const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dotresize::DOTRESIZE_FUZZ_TARGET(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
}
