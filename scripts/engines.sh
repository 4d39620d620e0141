#!/usr/bin/env bash
# The perplexity of stock outputs (map_sharing: model) in llama.cpp, beside that in transformers (docs/serving.md). Ends with 1
# if they differ by more than 0.1 %.
#
#   scripts/engines.sh TOKENS MODEL_DIR...    TOKENS: a safetensors file with a tensor "tokens", [windows, seqlen]
#
# The first run builds llama.cpp in build/engines/, from the source package of llama-cpp-python: about a quarter of an hour.
set -euo pipefail
(($# >= 2)) || { echo "usage: scripts/engines.sh TOKENS MODEL_DIR..." >&2; exit 64; }
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
engines=$root/build/engines
version=0.3.36

if [ ! -e "$engines/ready-$version" ]; then
  echo "engines: building llama.cpp in build/engines/"
  rm -rf "$engines"
  mkdir -p "$engines/source"
  package=$engines/llama_cpp_python-$version.tar.gz
  "$python" -m pip download -q --no-deps --no-binary llama-cpp-python -d "$engines" "llama-cpp-python==$version"
  tar -xzf "$package" -C "$engines/source" --strip-components 1
  "$python" -m pip install -q --no-deps --target "$engines/site" diskcache==5.6.3 sentencepiece==0.2.3 "$package"
  touch "$engines/ready-$version"
fi
PYTHONPATH=$engines/site exec "$python" "$root/scripts/llama_cpp_perplexity.py" \
  --converter "$engines/source/vendor/llama.cpp" "$@"
