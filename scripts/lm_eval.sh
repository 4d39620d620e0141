#!/usr/bin/env bash
# Scores a model directory with EleutherAI's harness: the paper's five tasks, zero-shot.
#
#   scripts/lm_eval.sh MODEL_DIR [ARGUMENT...]
#
# Further arguments go to `lm_eval run`: --tasks in place of the five, --num_fewshot, --batch_size,
# --device, --output_path, --include_path (docs/evaluation.md).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python

if (($# == 0)) || [[ $1 == -* ]]; then
  echo "usage: scripts/lm_eval.sh MODEL_DIR [ARGUMENT...]" >&2
  exit 64
fi
model=$1
shift
if [[ $model == *[,=]* ]]; then
  echo "lm_eval.sh: error: $model: the harness takes no model path with ',' or '='" >&2
  exit 65
fi
trust=$("$python" "$root/scripts/trusted_code.py" "$model")

# The harness adds up repeated --tasks, so the five are passed only if no argument names tasks.
tasks=(--tasks arc_challenge,arc_easy,hellaswag,piqa,winogrande)
for argument; do
  [[ $argument != --tasks && $argument != --tasks=* && $argument != -t ]] || tasks=()
done

exec "$python" -m lm_eval run --model hf \
  --model_args "pretrained=$model,trust_remote_code=$trust" \
  --num_fewshot 0 --batch_size 8 "${tasks[@]}" "$@"
