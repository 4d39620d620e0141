#!/usr/bin/env bash
# The server's tests under ThreadSanitizer, in build-thread/. Not among all tests: it takes a quarter of an hour of 2 cores.
#
#   scripts/tsan.sh [FILE...]   server_test, then these of tests/server (default: all that need no other program as server)
#
# The programs that jobs run are those of build/. A race ends the server with exit code 66, which fails the test.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset thread >/dev/null
cmake --build build-thread --target dotresize-server server_test
files=("$@")
((${#files[@]})) || files=(tests/server/test_{api,operations,scheduling,security,web,sweeps,observability}.py)
# ignore_noninstrumented_modules: gRPC and SQLite are Debian's, whose locks it does not know.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66 second_deadlock_stack=1"
export DOTRESIZE_BUILD=$PWD/build DOTRESIZE_WORKER=$PWD/build/bin/dotresize-worker CUDA_VISIBLE_DEVICES=
export DOTRESIZE_SERVER_PROGRAM=$PWD/build-thread/bin/dotresize-server
# The preset has -U__SANITIZE_THREAD__: with it protobuf's classes have members that Debian's library does not know.
# -R: its shadow memory wants programs at the addresses that they have without randomisation.
setarch -R build-thread/bin/server_test --gtest_brief=1
setarch -R .venv/bin/python -m pytest -q -p no:cacheprovider "${files[@]}"
