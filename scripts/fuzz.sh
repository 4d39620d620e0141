#!/usr/bin/env bash
# Runs libFuzzer over the code that untrusted bytes go through (tests/fuzz/targets.h), as it is built.
#
#   scripts/fuzz.sh SECONDS [TARGET...]   runs the kept inputs, then new ones for so long, for each target
#   scripts/fuzz.sh keep [TARGET...]      keeps the fewest inputs that reach as much code as all that runs have found
#
# Kept inputs are in tests/fuzz/corpus/TARGET/, words of each format in tests/fuzz/TARGET.dict, new finds in
# build/fuzz/TARGET/. The target tokenizer is a program of its own (tests/fuzz/tokenizer.py): it keeps nothing, and draws
# its files from SEED (default 1). An input that breaks a promise ends the run, and is left there as crash-*, slow-unit-* or the
# like. Add it to the corpus with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

seconds=${1:?SECONDS or keep}
targets=("${@:2}")
((${#targets[@]})) || targets=(safetensors config job_file tokens access http calls tokenizer)
# Temporary files are in memory: each input of some targets is a file, or a change of the job table.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm

for target in "${targets[@]}"; do
  if [ "$target" = tokenizer ]; then  # its files are drawn, and none is kept
    [ "$seconds" = keep ] || .venv/bin/python tests/fuzz/tokenizer.py "$seconds" "${SEED:-1}"
    continue
  fi
  program=$root/build/bin/fuzz_$target
  corpus=$root/tests/fuzz/corpus/$target
  finds=$root/build/fuzz/$target
  mkdir -p "$finds/new"
  options=(-timeout=60 -rss_limit_mb=4096 -print_final_stats=1 "-artifact_prefix=$finds/")
  [ ! -f "tests/fuzz/$target.dict" ] || options+=("-dict=$root/tests/fuzz/$target.dict")
  if [ "$seconds" = keep ]; then
    mkdir -p "$finds/kept"
    "$program" -merge=1 "${options[@]}" "$finds/kept" "$corpus" "$finds/new"
    rm -rf "$corpus"
    mv "$finds/kept" "$corpus"
  else
    "$program" "-max_total_time=$seconds" -use_value_profile=1 "${options[@]}" "$finds/new" "$corpus"
  fi
done
