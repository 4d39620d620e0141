#!/usr/bin/env bash
# Builds and runs all benchmarks, keeps their results under bench/results/ and prints them as one table.
# Threads: OMP_NUM_THREADS, which the names of the results then end with. TOKENS (default 2048) is what the
# layer at full width gets; CONFIGS its models.
# scripts/bench.sh NAME...: only these of l1_cost sinkhorn layer ranks cuda. The last one, kernels and layer on a
# GPU, says that it measures nothing if there is none.
# scripts/bench.sh scale: not among all; real jobs at the widths of 8B and 70B under memory budgets (16 GB of disk, an
# hour or two on 2 cores). CASE: a part of the names of the only ones to run.
# scripts/bench.sh gradients: not among all; the gradient pass beside PyTorch's autograd, of the published model of
# scripts/real_model.sh if it is there, else of the example. SAMPLES (default 4, healing 8) windows of 512 tokens.
# scripts/bench.sh healing: not among all; the layers' part of healing beside PyTorch's training of the same layers, likewise.
# scripts/bench.sh server: not among all; the server under load, about half an hour. PART: the only ones of crowd, table
# and short_jobs to run.
# scripts/bench.sh hardware: not among all; the rates of this machine as a file for dotresize plan --hardware. DEVICE
# (default cpu; cuda), FOLDER (default the system's for temporary files) is on the disk that is measured.
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
cmake --build --preset release
mkdir -p $results

run() {  # PROGRAM RESULT ARGUMENTS...
  local result=$results/$2$threads.json
  "build/bin/$1" --benchmark_out="$result" --benchmark_out_format=json "${@:3}"
  [ ! -s "$result" ] || made+=("$result")
}
beside_pytorch() {  # PROGRAM RESULT
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
      mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 build/bin/hardware_benchmark \
        --device "$device" --folder "${FOLDER:-${TMPDIR:-/tmp}}" | tee "$file.partial"
      mv "$file.partial" "$file"
      echo "$file" ;;
    server)
      read -ra parts <<<"${PART:-}"
      $python bench/server_load.py build $results/server.json ${parts:+--only "${parts[@]}"}
      made+=("$results/server.json") ;;
    gradients) beside_pytorch gradient_benchmark.py gradients ;;
    healing) beside_pytorch healing_benchmark.py healing ;;
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
