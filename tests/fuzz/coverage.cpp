// Coverage feedback for libFuzzer. g++ makes code that is compiled with
// -fsanitize-coverage=trace-pc,trace-cmp call these functions, and libFuzzer reads the section of
// counters. (libFuzzer's own __sanitizer_cov_trace_pc expects clang's counters and refuses to
// work.) The counts have no effect in programs that are not fuzzed.
#include <cstdint>

extern "C" {

extern const char
    __executable_start;  // set by the linker: offsets from it are the same in each run

__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t counters[1 << 16];

void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<uintptr_t>(&__executable_start);
  // A race between threads may lose a count, which is harmless.
  ++counters[(place ^ (place >> 16)) % sizeof(counters)];
}

// Floating-point comparisons: libFuzzer does not use them.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
}
