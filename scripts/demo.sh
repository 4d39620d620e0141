#!/usr/bin/env bash
# Runs the main job as a user would: starts a coordinator on a free port, submits the example over gRPC, which 8 ranks compute, and
# loads the result in transformers.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "demo: $*"; }

scripts/setup.sh
say "building the three programs in build/ (some minutes the first time)"
scripts/build.sh --target programs
example=examples/docs-llama
output=out/docs-llama-80
bin=build/bin
if [ ! -f $example/calibration.txt ] || [ ! -f $example/evaluation.txt ]; then
  say "taking calibration and evaluation text from Python's documentation strings"
  .venv/bin/python $example/make_text.py
fi

state=$(mktemp -d "${TMPDIR:-/tmp}/dotresize-demo.XXXXXX")
$bin/dotresize-server --listen 127.0.0.1:0 --state "$state" >"$state/server.out" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$state"' EXIT
for _ in $(seq 100); do
  [ -s "$state/endpoint" ] && break
  kill -0 $server 2>/dev/null || { cat "$state/server.out" >&2; exit 1; }
  sleep 0.1
done
export DOTRESIZE_SERVER
DOTRESIZE_SERVER=$(cat "$state/endpoint")
say "coordinator on $DOTRESIZE_SERVER, state in $state"

rm -rf $output
say "compressing $example with 8 ranks"
$bin/dotresize plan $example/job.yaml
$bin/dotresize submit --wait $example/job.yaml

say "perplexity of the result in transformers:"
.venv/bin/python scripts/load_and_score.py $output $example/evaluation.txt --seqlen 512 --expect-report
