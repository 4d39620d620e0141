// How libFuzzer learns which code an input has run: g++ calls these functions in what is compiled
// with -fsanitize-coverage=trace-pc,trace-cmp, and libFuzzer reads the section of counters. (Its
// own __sanitizer_cov_trace_pc refuses to work: it expects clang's counters.) Programs that are not
// fuzzed count for nothing.
#include <cstdint>

extern "C" {

extern const char
    __executable_start;  // of the linker: addresses relative to it are the same in each run

__attribute__((section("__libfuzzer_extra_counters"), used)) static uint8_t counters[1 << 16];

void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
                     reinterpret_cast<uintptr_t>(&__executable_start);
  // Threads may lose a count to each other.
  ++counters[(place ^ (place >> 16)) % sizeof(counters)];
}

// Comparisons of floating numbers, which libFuzzer does not learn from.
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
}
