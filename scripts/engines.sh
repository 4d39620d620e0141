#!/usr/bin/env bash
# Prints the perplexity of outputs in llama.cpp or in vLLM beside that in transformers (docs/serving.md). The exit code is 1 if they
# differ by more than 0.1 %, or if the engine refuses one.
#
#   scripts/engines.sh [--engine llama.cpp|vllm] TOKENS MODEL_DIR...
#   scripts/engines.sh --engine vllm TOKENS MODEL_DIR... --as nemotron-nas    exported by `dotresize export --to nemotron-nas`
#   scripts/engines.sh TOKENS MODEL_DIR... --quantize TYPE... [--windows N]    a table of sizes and perplexities in llama.cpp alone,
#                                             as Q8_0, Q4_K_M, ..., on all windows or N of them
#   scripts/engines.sh --engine llama.cpp|vllm --install
#
#                                             TOKENS: a safetensors file with a tensor "tokens", [windows, seqlen]
#
# The first run with an engine installs it in build/engines/. llama.cpp, the default, is built from the source package of
# llama-cpp-python, in about a quarter of an hour. vLLM is its build for CPUs, with a PyTorch of its own: 6 GB.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
scripts=$root/scripts/engines

usage() {
  echo "usage: scripts/engines.sh [--engine llama.cpp|vllm] --install | TOKENS MODEL_DIR... [--quantize TYPE... [--windows N]]" >&2
  exit 64
}

llama_cpp() {
  local engine=$root/build/engines/llama.cpp version=0.3.36
  if [ ! -e "$engine/ready-$version" ]; then
    echo "engines: building llama.cpp in build/engines/"
    rm -rf "$engine"
    "$python" -m pip install -q --no-deps --no-binary llama-cpp-python --target "$engine" diskcache==5.6.3 "llama-cpp-python==$version"
    touch "$engine/ready-$version"
  fi
  [ "$1" != --install ] || return 0
  local script=llama_cpp_perplexity.py
  [[ " $* " != *" --quantize "* ]] || script=quantized_table.py
  PYTHONPATH=$engine exec "$python" "$scripts/$script" "$@"
}

# --no-deps: vLLM requires a PyTorch without CUDA, which the package index does not have. One with CUDA works too.
vllm() {
  local engine=$root/build/engines/vllm requirements=$scripts/requirements-vllm.txt
  if ! cmp -s "$requirements" "$engine/ready"; then
    echo "engines: installing vLLM in build/engines/"
    rm -rf "$engine"
    "$python" -m venv "$engine"
    "$engine/bin/python" -m pip install -q --no-deps --no-compile -r "$requirements"
    cp "$requirements" "$engine/ready"
  fi
  [ "$1" = --install ] || exec "$engine/bin/python" "$scripts/vllm_perplexity.py" "$@"
}

engine=llama.cpp
if [ "${1-}" = --engine ]; then
  engine=${2-}
  shift $(($# < 2 ? $# : 2))
fi
[ "$*" = --install ] || (($# >= 2)) || usage
case $engine in
  llama.cpp) llama_cpp "$@" ;;
  vllm) vllm "$@" ;;
  *) usage ;;
esac
