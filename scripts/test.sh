#!/usr/bin/env bash
# Sets up what is missing, builds, and runs all tests. Arguments go to ctest: scripts/test.sh -L fast, scripts/test.sh -R worker
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh
# One test more than cores at a time: some wait for programs most of the time.
exec ctest --test-dir build --output-on-failure -j "$(($(nproc) + 1))" "$@"
