#!/usr/bin/env bash
# The first steps on a machine with GPUs, in order; first_gpu.py says what each step is and how it is judged.
#
#   scripts/first_gpu.sh [--rehearse] [--out FILE] [--folder DIR] [--only STEP...]
#
# Builds, then writes one result file with command, time and outcome of each step (default bench/results/first-gpu.json). A
# step that fails or hangs does not keep the next ones from running; one that cannot run here is skipped with the reason.
# It takes an hour or two on eight GPUs and 20 GB in DIR (default build/first-gpu). The time is a guess: one GPU has run parts of
# it, none all. The exit code is 1 if a step has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh --target all benchmarks
exec .venv/bin/python scripts/first_gpu.py "$@"
