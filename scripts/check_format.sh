#!/usr/bin/env bash
# Every C++ file of the project is as clang-format leaves it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.cpp' '*.h' | xargs -0 clang-format --dry-run -Werror
