#!/usr/bin/env bash
# compute-sanitizer over the case table: many processes at a time, on all GPUs of the machine.
#
#   ./sanitize.sh TOOL SIZE [DTYPE...]    memcheck, racecheck, ... over the small or the large cases
#   DONE=LOG ./sanitize.sh ... >>LOG      without what LOG, of an earlier run, has as right
#   LIMIT=500                             seconds, behind which what is not done is left
#   EACH=17                               processes a GPU at a time
#
# A line for each process: tool, dtype, part, exit status, seconds, what the tool and the test say.
set -uo pipefail
cd "$(dirname "$0")"
[[ -d tests ]] || ./unpack.sh || exit
(($# >= 2)) || { sed -n '2,9s/^# \?//p' "$0" >&2; exit 2; }
tool=$1 size=$2
shift 2
(($# > 0)) || set -- f64 bf16 f16 f32 i32 i8 f8e4m3 f8e5m2 tf32

gpus=$(nvidia-smi --list-gpus | wc -l)
begun=$(date +%s)
export tool gpus begun limit=${LIMIT:-86400}
export GEMMITE_REQUIRE_CUDA=1 RAYON_NUM_THREADS=1

# Parts by what racecheck takes; no divisor of 70, the number of small cases, so that runs of one
# that takes long are in all parts.
parts() {
    case $tool$1 in
        racecheckf64 | racecheck*f16 | racecheckbf16x6) echo 33 ;;
        racecheck[fi]32) echo 23 ;;
        racecheck*8*) echo 11 ;;
        *) echo 3 ;;
    esac
}

one() {
    local number=$1 test=$2 cases=$3 log status start left
    start=$(date +%s)
    left=$((limit - start + begun))
    ((left > 15)) || { echo "$tool $test $cases: not begun"; return 1; }
    log=$(mktemp)
    GEMMITE_CASES=$cases CUDA_VISIBLE_DEVICES=$((number % gpus)) timeout "$left" \
        compute-sanitizer --tool "$tool" --error-exitcode 9 \
        tests/gemmite-tests-cases "cuda_$test" --exact --test-threads 1 --nocapture >"$log" 2>&1
    status=$?
    # No test of that name passes as well.
    if ((status == 0)) && ! grep -qE '[1-9][0-9]* runs, ' "$log"; then status=1; fi
    echo "$tool $test $cases: rc $status, $(($(date +%s) - start)) s:" \
        "$(grep -oE '[A-Z]+ SUMMARY: .*' "$log" | head -n 1)" \
        "$(grep -oE 'test result: [a-zA-Z]+|[0-9]+ runs, [0-9]+ refused' "$log" | tr '\n' ' ')"
    ((status == 0 || status == 124)) || sed 's/^/    /' "$log" | grep -v 'Host Frame' | head -n 20
    rm -f "$log"
    return $status
}

echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sort | uniq -c | xargs); $(grep commit: BUNDLE)"
export -f one
for dtype in "$@"; do
    for ((part = 0; part < $(parts "$dtype"); part++)); do
        cases=$size:$part/$(parts "$dtype")
        grep -qsF "$tool $dtype $cases: rc 0," "${DONE:-/dev/null}" || echo "$dtype $cases"
    done
done | nl -b a -w 1 -s ' ' | xargs -P $((${EACH:-17} * gpus)) -L 1 bash -c 'one "$@"' _
