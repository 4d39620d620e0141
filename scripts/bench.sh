#!/usr/bin/env bash
# Builds, runs benchmarks, keeps their results under bench/results/ and prints them as one table.
#
#   scripts/bench.sh           l1_cost sinkhorn layer ranks cuda
#   scripts/bench.sh NAME...   only these, or some of the following
#
#   cuda        kernels and layer on a GPU; says that there is nothing to measure if the build has no CUDA
#   scale       real jobs at the widths of 8B and 70B under memory budgets: 16 GB of disk, an hour or two on 2 cores
#   gradients   the gradient pass beside PyTorch's autograd
#   healing     the layers' part of healing beside PyTorch's training of the same layers
#   server      the server under load, about half an hour
#   estimates   memory and time of whole jobs beside their plan
#   hardware    the rates of this machine, as a file for dotresize plan --hardware
#
# OMP_NUM_THREADS   threads; the names of results then end with it. `hardware` takes all cores without it
# TOKENS, CONFIGS   tokens (default 2048) and models of `layer`
# CASE              part of the names of the cases that `scale` runs
# SAMPLES           windows of 512 tokens for `gradients` (default 4), `healing` and `estimates` (8). Their model is that of
#                   scripts/real_model.sh if it is there, else the example
# PART              which of crowd, table and short_jobs `server` runs
# DEVICE, FOLDER    what `hardware` measures: cpu (default) or cuda, and the disk of a folder (default: that for temporary files)
set -euo pipefail
cd "$(dirname "$0")/.."

names=("$@")
((${#names[@]})) || names=(l1_cost sinkhorn layer ranks cuda)
tokens=${TOKENS:-2048}
read -ra configs <<<"${CONFIGS:-llama-3.1-8b}"
results=bench/results
threads=${OMP_NUM_THREADS:+-threads-$OMP_NUM_THREADS}
made=()
python=.venv/bin/python
export THP_MEM_ALLOC_ENABLE=1  # as dotresize-worker sets it

cmake --preset release >/dev/null
cmake --build --preset release --target all benchmarks
mkdir -p $results

run() {  # PROGRAM RESULT ARGUMENTS...
  local result=$results/$2$threads.json
  "build/bin/$1" --benchmark_out="$result" --benchmark_out_format=json "${@:3}"
  [ ! -s "$result" ] || made+=("$result")
}
on_model() {  # PROGRAM RESULT
  local real=${DOTRESIZE_REAL_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/dotresize/real-model}
  local model=(--model "$real/smollm2" --tokens "$real/tokens/calibration.safetensors")
  [ -f "$real/ready" ] || model=()
  $python "bench/$1" build "$results/$2.json" ${SAMPLES:+--samples "$SAMPLES"} "${model[@]}"
  made+=("$results/$2.json")
}
for name in "${names[@]}"; do
  case $name in
    l1_cost | sinkhorn) run "${name}_benchmark" "$name" --benchmark_repetitions=3 ;;
    layer)
      for config in "${configs[@]}"; do
        run layer_benchmark "layer-$config" --config "bench/configs/$config.json" --tokens "$tokens"
      done ;;
    ranks)
      example=examples/docs-llama
      [ -f $example/calibration.txt ] || $python $example/make_text.py
      $python bench/ranks_benchmark.py build $results/ranks.json
      made+=("$results/ranks.json") ;;
    hardware)
      device=${DEVICE:-cpu}
      file=$results/hardware-$device$threads.yaml
      OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 \
        build/bin/hardware_benchmark --device "$device" --folder "${FOLDER:-${TMPDIR:-/tmp}}" | tee "$file.partial"
      mv "$file.partial" "$file"
      echo "$file" ;;
    server)
      read -ra parts <<<"${PART:-}"
      $python bench/server_load.py build $results/server.json ${parts:+--only "${parts[@]}"}
      made+=("$results/server.json") ;;
    gradients) on_model gradient_benchmark.py gradients ;;
    healing) on_model healing_benchmark.py healing ;;
    estimates) on_model estimates_benchmark.py estimates ;;
    scale)
      $python bench/scale_benchmark.py build $results/scale.json ${CASE:+--case "$CASE"}
      made+=("$results/scale.json") ;;
    cuda)
      if [ ! -x build/bin/cuda_benchmark ]; then
        echo "bench.sh: cuda: nothing to measure: this build has no CUDA"
        continue
      fi
      run cuda_benchmark cuda
      for config in "${configs[@]}"; do
        run layer_benchmark "layer-cuda-$config" --config "bench/configs/$config.json" --tokens "$tokens" --device cuda
      done ;;
    *) echo "bench.sh: error: no benchmark '$name'" >&2; exit 64 ;;
  esac
done
((${#made[@]} == 0)) || $python bench/table.py "${made[@]}"
