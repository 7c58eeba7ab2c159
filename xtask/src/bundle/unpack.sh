#!/usr/bin/env bash
# Unpacks the command, the benchmark and the tests beside this script.
set -euo pipefail
cd "$(dirname "$0")"
part=$(mktemp --directory ./unpacking.XXXXXX)
trap 'rm -rf "$part"' EXIT
tar --extract --xz --file programs.tar.xz --directory "$part"
# The tests' folder comes last: where it is, the other scripts take all for unpacked.
rm -rf tests
mv "$part"/gemmite "$part"/gemmite-bench .
mv "$part"/tests .
