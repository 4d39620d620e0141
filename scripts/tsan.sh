#!/usr/bin/env bash
# Runs server_test under ThreadSanitizer, in build-thread/: some minutes of 2 cores, most of them for the build. A race fails it.
# A live server cannot be checked in this way: Debian's gRPC is not instrumented, and every object that it hands from thread to
# thread would look like a race.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset thread >/dev/null
cmake --build build-thread --target server_test
# The preset has -U__SANITIZE_THREAD__: with it protobuf's classes have members that Debian's library does not know.
# setarch -R: the sanitizer's shadow memory wants programs at the addresses that they have without randomisation.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66 second_deadlock_stack=1"
# MemoryWait takes away the address space, which the sanitizer needs too.
exec setarch -R build-thread/bin/server_test --gtest_brief=1 --gtest_filter='-MemoryWait*' "$@"
