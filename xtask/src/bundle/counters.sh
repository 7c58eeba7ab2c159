#!/usr/bin/env bash
# Nsight Compute's counters of the kernels that the library chooses, one line each, as CSV.
#
#   ./counters.sh >FILE            with ncu in PATH; clocks stay as they are
set -uo pipefail
cd "$(dirname "$0")"
[[ -d tests ]] || ./unpack.sh || exit
size=${SIZE:-4096}

metrics=(
    gpu__time_duration.sum
    launch__registers_per_thread
    sm__inst_issued.avg.pct_of_peak_sustained_active
    sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active
    sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
    l1tex__data_pipe_lsu_wavefronts_mem_shared.sum
    l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
    smsp__inst_executed_op_local_ld.sum
    smsp__inst_executed_op_local_st.sum
    lts__t_sectors.avg.pct_of_peak_sustained_elapsed
    dram__throughput.avg.pct_of_peak_sustained_elapsed
)
joined=$(IFS=,; echo "${metrics[*]}")

# line LABEL REGEX SKIP ARGUMENTS...: counters of the kernel's launch after so many others.
line() {
    local label=$1 kernel=$2 skip=$3 log
    shift 3
    log=$(mktemp)
    ncu --clock-control none --kernel-name "regex:$kernel" --launch-skip "$skip" --launch-count 1 \
        --metrics "$joined" --csv --page raw --log-file "$log" \
        ./gemmite bench "$size" "$size" "$size" --rounds 3 "$@" >/dev/null 2>&1
    python3 - "$label" "$log" "${metrics[@]}" <<'PYTHON'
import csv, sys
label, log, *metrics = sys.argv[1:]
rows = [row for row in csv.reader(open(log)) if len(row) > 5]
if len(rows) < 3:
    print(label + ",not counted: " + open(log).read().strip().replace("\n", " ")[-200:])
else:
    head, units, values = rows[0], rows[1], rows[-1]
    cell = lambda name: values[head.index(name)].replace(",", "") if name in head else "-"
    unit = units[head.index(metrics[0])]
    print(",".join([label, cell("Kernel Name").split("(")[0], unit] + [cell(m) for m in metrics]))
PYTHON
    rm -f "$log"
}

echo "# $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader); $(grep commit: BUNDLE)"
echo "# Nsight Compute, clocks as they are, $size x $size x $size"
echo "product,kernel,time_unit,$joined"
for layout in nn nt; do
    for dtype in f32 f64 i32 i8 f16 bf16; do
        # What multiplies; copies of operands and sums of parts have other names.
        kernel="^(k1[0-2]|warp_group)_.*_$dtype\$"
        line "$dtype $layout" "$kernel" 3 --dtype $dtype --layout $layout --against none
    done
done
