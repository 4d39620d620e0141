#!/usr/bin/env bash
# Checks that clang-format changes no file of C++ or CUDA, and that no line of the documents outside tables is longer than 150 characters.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.cpp' '*.h' '*.cu' '*.cuh' | xargs -0 clang-format --dry-run -Werror
if git ls-files -z '*.md' | LC_ALL=C.UTF-8 xargs -0 grep -nP '^(?! *\|).{151,}$'; then
  echo "check_format: error: these lines are longer than 150 characters" >&2
  exit 1
fi
