#!/usr/bin/env bash
# Builds everything into build/. Arguments go to the build: scripts/build.sh --target dotresize-worker
set -euo pipefail
cd "$(dirname "$0")/.."

[ -f build/build.ninja ] || cmake --preset release
cmake --build --preset release "$@"
