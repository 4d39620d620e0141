#!/usr/bin/env bash
# Pins the foreign images of deploy/ to the digests that their tags have in their registries now. It needs `docker buildx`.
#
#   scripts/image_digests.sh           rewrites every `IMAGE:TAG@sha256:...`; the digest of a new image may be left empty
#   scripts/image_digests.sh --check   changes no file, and ends with 1 if a digest differs
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "image_digests: error: $*" >&2; exit 1; }
[[ $# -eq 0 || ( $# -eq 1 && $1 == --check ) ]] || fail "usage: scripts/image_digests.sh [--check]"

digest_of() {  # IMAGE:TAG
  local digest
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1") || fail "no answer for $1"
  [[ $digest =~ ^sha256:[0-9a-f]{64}$ ]] || fail "no digest of $1: $digest"
  echo "$digest"
}

different=0
references=$(grep -rhoE '[a-z0-9./-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]*' deploy | sort -u)
for reference in $references; do
  digest=$(digest_of "${reference%@*}")
  pinned=${reference%@*}@$digest
  [[ $pinned != "$reference" ]] || { echo "same  $reference"; continue; }
  different=1
  echo "now   $pinned"
  [[ $# -ne 0 ]] || grep -rlF "$reference" deploy | xargs sed -i -E "s#$reference([^0-9a-f]|\$)#$pinned\1#"
done
[[ $# -eq 0 ]] || exit "$different"
