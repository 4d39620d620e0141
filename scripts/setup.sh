#!/usr/bin/env bash
# Installs what the build and the tests need, if it is missing: Debian packages, and two Python
# environments inside the repository. It can be run as often as you like; a second run does nothing.
#
#   .venv/                libtorch for the C++ build, transformers 5 (requirements.txt)
#   .venv-transformers4/  transformers 4, for PYTHONPATH (requirements-transformers4.txt)
#
# PYTHON chooses the interpreter for .venv/ (3.11 or later; default: python3).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

packages=(
  build-essential cmake ninja-build ccache git clang-format clang-tidy python3 python3-venv
  libopenmpi-dev openmpi-bin openssh-client openssh-server
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev
  libyaml-cpp-dev libspdlog-dev libfmt-dev libsqlitecpp-dev libsqlite3-dev nlohmann-json3-dev
  libcli11-dev libssl-dev pkg-config libcpp-httplib-dev prometheus-cpp-dev
  libctemplate-dev libjs-chart.js chromium
  libhwy-dev libgtest-dev libgmock-dev libbenchmark-dev libclang-rt-dev slurm-wlm munge
)

# The tests of the launcher for Kubernetes need a kubectl, from any source.
command -v kubectl >/dev/null || packages+=(kubernetes-client)

say() { echo "setup: $*"; }
fail() { echo "setup: error: $*" >&2; exit 1; }

missing_packages() {
  local installed package format='${Package} ${db:Status-Status}\n'
  installed=$(dpkg-query -W -f "$format" "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this is not Debian: install what corresponds to these packages: ${packages[*]}"
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      fail "this user is not root, and there is no sudo: run this as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# A stamp holds the hash of the requirements that a folder was made from. It is written last.
hash_of() { sha256sum "$1" | cut -d ' ' -f 1; }
is_current() {  # FOLDER REQUIREMENTS
  [[ -e $1/.setup-stamp && $(<"$1/.setup-stamp") == $(hash_of "$2") ]]
}

# uv downloads and unpacks several packages at once, in less than half of pip's time. It uses pip's index and certificates.
install_python_packages() {  # OPTIONS OF uv pip install...
  local python=$root/.venv/bin/python index extra options=(--quiet --system-certs --require-hashes --python "$root/.venv/bin/python")
  "$python" -m pip install --disable-pip-version-check -q --no-compile --no-deps --require-hashes \
    -r <(sed -n '/^uv==/,/[^\\]$/p' "$root/requirements.txt")
  index=${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}
  extra=${PIP_EXTRA_INDEX_URL:-$("$python" -m pip config get global.extra-index-url 2>/dev/null || true)}
  [[ -z $index ]] || options+=(--default-index "$index")
  # uv takes the newest of all indexes, as pip does, not the first index that knows the package.
  [[ -z $extra ]] || options+=(--index-strategy unsafe-best-match)
  for extra in $extra; do options+=(--extra-index-url "$extra"); done
  [[ -z ${PIP_FIND_LINKS:-} ]] || options+=(--find-links "$PIP_FIND_LINKS")
  [[ -z ${PIP_CERT:-} ]] || options+=(--cert "$PIP_CERT")
  UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180} "$root/.venv/bin/uv" pip install "${options[@]}" "$@"
}

install_environment() {
  local venv=$root/.venv requirements=$root/requirements.txt python=${PYTHON:-python3}
  if [[ -e $venv/.setup-unfinished ]] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    # The leftovers of an interrupted pip cannot be trusted.
    rm -rf "$venv"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
      fail "$python is not Python 3.11 or later: set PYTHON to one that is"
    mkdir "$venv"
    touch "$venv/.setup-unfinished"
    "$python" -m venv "$venv"
  fi
  ! is_current "$venv" "$requirements" || return 0
  touch "$venv/.setup-unfinished"
  say "installing Python packages in .venv/ (torch among them: about 7 GB, some minutes)"
  install_python_packages -r "$requirements"
  rm "$venv/.setup-unfinished"
  hash_of "$requirements" >"$venv/.setup-stamp"
}

install_transformers4() {
  local folder=$root/.venv-transformers4 requirements=$root/requirements-transformers4.txt
  ! is_current "$folder" "$requirements" || return 0
  say "installing transformers 4 in .venv-transformers4/"
  rm -rf "$folder"
  install_python_packages --no-deps --target "$folder" -r "$requirements"
  hash_of "$requirements" >"$folder/.setup-stamp"
}

# One set-up at a time: the lock is on the repository's folder and ends with this process.
exec 9<"$root"
flock 9
install_packages & packages=$!
trap wait EXIT  # apt-get goes on for longer than a failed set-up of Python
# No Python package is compiled: with a Python that can make environments, none waits for Debian's.
"${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || wait "$packages"
install_environment
install_transformers4
wait "$packages" || fail "the Debian packages are not installed, see above"
say "ready"
