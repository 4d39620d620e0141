#!/usr/bin/env bash
# Prints figures of the code's shape beside their goals: sizes of folders, files, functions, structs and documents. lizard, which
# uvx fetches, counts functions.
set -euo pipefail
cd "$(dirname "$0")/.."
server=build/bin/dotresize-server
if [ ! -x $server ]; then
  echo "house: error: no $server: run scripts/build.sh" >&2
  exit 1
fi

sources() { git ls-files base job server client worker proto | grep -E '\.(h|cpp|cu|cuh|proto|py|html|css|js)$'; }
code() { sources | grep -E '\.(h|cpp|cu|cuh)$'; }
lines() { xargs cat | wc -l; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }

functions() {  # mean lines; share under ten lines
  code | xargs .venv/bin/uvx --quiet lizard==1.24.3 --csv |
    .venv/bin/python -c '
import csv, sys
lengths = [int(row[4]) for row in csv.reader(sys.stdin)]
print(f"{sum(lengths) / len(lengths):.1f}; {sum(n < 10 for n in lengths) / len(lengths):.0%}")'
}

largest_folders() {  # folders over thirty files, with how many they have; a fuzzer's inputs are as many as reach all code
  git ls-files ':!tests/fuzz/corpus' | sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 30 {printf "%s%s %d", n++ ? ", " : "", $2, $1} END {if (!n) print "none"}'
}

# A pair: x.h and x.cpp are one, and each of two includes the other.
pairs_that_include_each_other() {
  code | xargs grep -H '^#include "' | sed -E 's|^([^:]*)\.[a-z]+:#include "([^"]*)\.[a-z]+".*|\1 \2|' | sort -u |
    awk '$1 != $2 {seen[$1 " " $2] = 1} END {for (pair in seen) {split(pair, p, " "); if (p[1] < p[2] && (p[2] " " p[1]) in seen) n++} print n + 0}'
}

members() {  # FILE NAME: lines that declare a member of a struct or class
  awk -v begin="^(struct|class) $2 (final )?\\{" '$0 ~ begin {on = 1; next} on && /^};/ {print n + 0; exit}
    on && /^  [a-zA-Z].*;/ && !/\(.*\).*;/ && !/^  (using|static|friend|return)/ {n++}' "$1"
}

text_lines() {  # neither blank nor of a table or a command
  git ls-files docs | grep 'md$' | xargs awk '/^```/ {code = !code; next} !code && !/^\|/ && NF {n++} END {print n}'
}

lengths=$(functions)
echo '| | now | goal |'
echo '| --- | ---: | ---: |'
row 'lines in base, job, server, client, worker, proto' "$(sources | lines)" '≤ 46,000'
row 'mean function in lines; functions under 10 lines' "$lengths" '≥ 10; ≤ 55 %'
row 'files under 40 lines' "$(code | xargs wc -l | awk '$2 != "total" && $1 < 40' | wc -l) of $(code | wc -l)" '< 80'
row 'files over 500 lines' "$(git ls-files '*.h' '*.cpp' '*.cu' '*.py' | xargs wc -l | awk '$2 != "total" && $1 > 500' | wc -l)" ''
row 'folders over 30 files' "$(largest_folders)" 'none'
row 'pairs of files that include each other' "$(pairs_that_include_each_other)" '≤ 5'
row 'members of `ResolvedJob`, `Server`, `ServerOptions`, `ModelConfig`' \
  "$(members job/plan/resolved_job.h ResolvedJob), $(members server/server.h Server), $(members server/options.h ServerOptions), $(
    members job/model/model_config.h ModelConfig)" '≤ 15 each'
row 'keys of `method`' "$(awk '/^message Method/ {on = 1} on && /^  (optional )?[A-Za-z0-9.]+ [a-z_]+ = [0-9]+;/ {n++} on && /^}/ {print n; exit}' \
  proto/dotresize/v1/job.proto)" '≤ 12'
row 'options of the server' "$($server --help | grep -cE '^ +--[a-z]')" '≤ 22'
row 'comments that begin with "Of", "What", "Whether" and the like' \
  "$(git grep -hE '(#|//[/!]?|"""|/\*\*?) *(Of|What|That|Whether|Who|Those|Where|How|Which) |(///<|[;{,] +//) of ' ':!*.md' | wc -l)" '0'
row 'lines of README.md; of text in docs/*.md' "$(wc -l < README.md); $(text_lines)" '≤ 120; ≤ 2,000'
row 'lines of the documents over 150 characters, tables apart' "$(git ls-files '*.md' | LC_ALL=C.UTF-8 xargs grep -hP '^(?! *\|).{151,}$' | wc -l)" '0'
