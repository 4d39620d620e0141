#!/usr/bin/env bash
# Set-up if needed, build, and all tests. Arguments go to ctest: scripts/test.sh -R worker
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh
# One more than there are cores: some tests wait for programs most of the time.
exec ctest --test-dir build --output-on-failure -j "$(($(nproc) + 1))" "$@"
