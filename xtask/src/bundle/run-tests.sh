#!/usr/bin/env bash
# Runs every test of this bundle on the machine's GPU; a missing GPU is a failure, and so is a skip.
#
#   ./run-tests.sh [TEST...]     only tests whose name contains one of the words; none is a failure
#   WRAP="compute-sanitizer --tool memcheck --error-exitcode 9" ./run-tests.sh
set -uo pipefail
cd "$(dirname "$0")"
[[ -d tests ]] || ./unpack.sh || exit
export GEMMITE_REQUIRE_CUDA=1 GEMMITE_REQUIRE_DIGITS=1
# Tests that start the command start this one.
export GEMMITE_BIN="$PWD/gemmite"

cat BUNDLE
mkdir -p log
passed=0 failed=0 ignored=0 skipped=0
failures=()
for program in tests/*; do
    [[ $program == *.py ]] && continue
    name=$(basename "$program")
    log="log/$name.log"
    start=$(date +%s)
    # shellcheck disable=SC2086  # WRAP is a command with its arguments
    ${WRAP:-} "./$program" "$@" >"$log" 2>&1
    status=$?
    seconds=$(($(date +%s) - start))
    result=$(grep '^test result:' "$log" | tail -n 1)
    count() { grep -o "[0-9]* $1" <<<"$result" | cut -d ' ' -f 1; }
    passed=$((passed + $(count passed || echo 0) + 0))
    failed=$((failed + $(count failed || echo 0) + 0))
    ignored=$((ignored + $(count ignored || echo 0) + 0))
    printf '%-40s %5s s  %s\n' "$name" "$seconds" "${result:-no result, exit status $status}"
    grep '^skipped (' "$log"
    skipped=$((skipped + $(grep -c '^skipped (' "$log")))
    if ((status != 0)); then
        failures+=("$name")
        tail -n 60 "$log"
    fi
done
echo "passed $passed, failed $failed, ignored $ignored, skipped $skipped; failing programs: ${failures[*]:-none}"
((${#failures[@]} == 0 && skipped == 0 && passed > 0))
