#!/usr/bin/env bash
# Unpacks the command, the benchmark and the tests beside this script.
set -euo pipefail
cd "$(dirname "$0")"
tar --extract --xz --file programs.tar.xz
