#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy over the sources named, by default all of ours.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -f build-tidy/build.ninja ] || cmake --preset tidy >/dev/null
cmake --build build-tidy --target dotresize_generated >/dev/null
(($#)) || mapfile -t sources < <(git ls-files 'base/*.cpp' 'job/*.cpp' 'server/*.cpp' 'client/*.cpp' 'worker/*.cpp')
(($#)) && sources=("$@")
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build-tidy --quiet --extra-arg=-Wno-unknown-warning-option
