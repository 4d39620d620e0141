#!/usr/bin/env bash
# Runs ruff over Python with the rules of ruff.toml, and clang-tidy over C++ with the checks of .clang-tidy. Kernels (.cu, .cuh)
# are not linted: NVRTC defines names that clang-tidy does not know.
#
#   scripts/lint.sh              all sources
#   scripts/lint.sh FILE...      these, *.py with ruff
#   scripts/lint.sh --changed    at most $LINT_MOST (default 3) of those changed in the working tree or in the last day of
#                                commits, the newest first. CI checks these, to save time. All Python is checked, in a second
set -euo pipefail
cd "$(dirname "$0")/.."

ours='^(base|job|server|client|worker)/.*\.(cpp|h)$'

changed_files() {  # newest first
  git diff --name-only HEAD
  git log --since=$(($(git log -1 --format=%ct) - 86400)) --name-only --format=
}

# A header is checked with the source of its name.
changed_sources() {
  local file
  while read -r file; do
    file=${file%.*}.cpp
    [ ! -f "$file" ] || echo "$file"
  done < <(changed_files | grep -E "$ours") | awk '!seen[$0]++'
}

# Paths that users name are opened by base/files/ (InputFile, OutputFile, Confinement, PinnedDirectory), beneath the allowed
# roots. These sources open other files: the state directory's, /proc, /dev, those of the installation.
own_files='^(server/(store/(files|job_store)|access/(access|call_gate|guarded_server))'
own_files+='|server/launch/(contract_launcher|process_table|supervisor)'
own_files+='|worker/(cuda/nvrtc|comm/peer_sockets)|job/sweep/sweep_results)\.cpp$'
opening='::open\(|[^_]fopen\(|std::(i|o)?fstream'
openers=$(git ls-files 'server/*.cpp' 'worker/*.cpp' 'job/*.cpp' | grep -vE "$own_files" | xargs grep -nE "$opening" |
  grep -vE 'Sessions::open' || true)
if [ -n "$openers" ]; then
  echo "lint: these lines open files without base/files/:" >&2
  echo "$openers" >&2
  exit 1
fi

# Files are changed by base/files/ alone: files::rename and the like (file_changes.h) stay beneath the allowed roots.
changing='(fs|filesystem)::(remove|remove_all|rename|create_[a-z_]+|copy|copy_[a-z_]+|resize_file|permissions)\('
changing+='|(^|[^a-z_:])::(unlink|unlinkat|rename|renameat|renameat2|mkdir|mkdirat|rmdir|link|linkat|symlink|symlinkat'
changing+='|truncate|chmod|fchmodat|chown|lchown|fchownat|utimensat|mkstemp|mkdtemp)\('
changers=$(git ls-files '*.cpp' '*.h' | grep -E "$ours" | grep -v '^base/files/' | xargs grep -nE "$changing" || true)
if [ -n "$changers" ]; then
  echo "lint: these lines change files without base/files/:" >&2
  echo "$changers" >&2
  exit 1
fi

# Locks of the server are those whose use clang checks (base/process/mutex.h).
unchecked=$(git ls-files 'server/*.cpp' 'server/*.h' 'base/*.cpp' 'base/*.h' | grep -vxF base/process/mutex.h |
  xargs grep -nE 'std::(mutex|shared_mutex|recursive_mutex|lock_guard|scoped_lock|unique_lock|condition_variable)' || true)
if [ -n "$unchecked" ]; then
  echo "lint: these lines have locks other than those of base/process/mutex.h:" >&2
  echo "$unchecked" >&2
  exit 1
fi

# The version is CMake's; others state the same.
version=$(sed -nE 's/^project\(dotresize VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
stale=$(git grep -nE 'dotresize:[0-9]+\.[0-9]|newTag: [0-9]|^version = ' deploy docs client/python |
  grep -vE "(dotresize:|newTag: |version = \")${version//./\\.}(-mpi)?\b" || true)
grep -qF "## [$version]" CHANGELOG.md || stale+="${stale:+$'\n'}CHANGELOG.md has no section for it"
if [ -n "$stale" ]; then
  echo "lint: the version is $version (CMakeLists.txt), but:" >&2
  echo "$stale" >&2
  exit 1
fi

ruff=.venv/bin/ruff
[ -x $ruff ] || { echo "lint: error: no $ruff: run scripts/setup.sh" >&2; exit 1; }

if [ "${1-}" = --changed ]; then
  git rev-parse --git-dir >/dev/null  # its error is ours: without git nothing would seem to have changed
  mapfile -t sources < <(changed_sources)
  most=${LINT_MOST:-3}
  ((${#sources[@]} <= most)) ||
    echo "lint: $((${#sources[@]} - most)) more changed sources are left out: scripts/lint.sh checks all"
  sources=("${sources[@]:0:most}")
elif (($#)); then
  sources=() python=()
  for file; do
    case $file in
      *.py) python+=("$file") ;;
      *) sources+=("$file") ;;
    esac
  done
  ((${#python[@]} == 0)) || $ruff check --no-cache --quiet "${python[@]}"
  ((${#sources[@]})) || exit 0
else
  mapfile -t sources < <(git ls-files | grep -E "$ours" | grep '\.cpp$')
fi
[[ $# -gt 0 && $1 != --changed ]] || $ruff check --no-cache --quiet
((${#sources[@]})) || { echo "lint: nothing has changed"; exit 0; }

[ -f build-tidy/build.ninja ] || cmake --preset tidy >/dev/null
cmake --build build-tidy --target dotresize_generated >/dev/null
echo "lint: ${#sources[@]} sources"
# The number of warnings suppressed in foreign headers is no news.
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build-tidy --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument --extra-arg=-Wthread-safety \
    2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2)
