#!/bin/sh
# Runs foreign clients of KFD, unmodified, on the software GPU behind LIBRARY (`cargo xtask shim --print-path`).
# FOLDER holds them: bookworm/root and trixie/root with Debian's packages unpacked, tinygrad/ with PyPI's package,
# own-CHIP.co with code objects of our compiler; `cargo xtask shim --check` fetches and makes all that. What isn't
# there is skipped with a word; with nothing left to run the exit status is 77.
set -eu
library=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
machine=x86_64-linux-gnu
output=$folder/output.txt
export DOORBELL_SHIM_REPORT="$folder/report.txt"
ran=0
failed=0
skip() { echo "skipped: $1"; }

# try TEXT PATTERN COMMAND...: the command must end well and print a line with the pattern, and no wave may fault.
try() {
    text=$1
    pattern=$2
    shift 2
    rm -f "$DOORBELL_SHIM_REPORT"
    start=$(date +%s%N)
    status=0
    timeout 600 "$@" >"$output" 2>&1 || status=$?
    seconds=$(awk "BEGIN { printf \"%.1f\", ($(date +%s%N) - $start) / 1e9 }")
    report=$(head -n 1 "$DOORBELL_SHIM_REPORT" 2>/dev/null || true)
    ran=$((ran + 1))
    if [ "$status" = 0 ] && grep -q -- "$pattern" "$output" && [ "${report% findings 0 faults 0}" != "$report" ]; then
        echo "ok: $text, $seconds s ($report)"
    else
        failed=$((failed + 1))
        echo "FAILED: $text, exit status $status, no line with '$pattern', or findings:"
        tail -n 20 "$output"
        cat "$DOORBELL_SHIM_REPORT" 2>/dev/null || true
    fi
}

# AMD's newer runtime comes with the C library that it was built for.
new=$folder/trixie/root
libraries=$new/usr/lib/$machine
preloaded() { # CHIP KERNEL LEVEL PROGRAM...
    chip=$1 kernel=$2 level=$3
    shift 3
    env DOORBELL_SHIM_CHIP="$chip" DOORBELL_SHIM_KERNEL="$kernel" DOORBELL_SHIM_LEVEL="$level" \
        "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" --preload "$library" "$@"
}
# `timeout` runs programs only, so the function is run by the script itself.
case ${3:-} in
preloaded)
    shift 3
    preloaded "$@"
    exit
    ;;
esac

# rocminfo 5.2.3 asks lsmod for the module. It knows no gfx11, so it finishes without the GPU, or with the name of a
# chip that it knows, by its own variable.
old=$folder/bookworm/root
if [ -x "$old/usr/bin/rocminfo" ]; then
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\necho amdgpu 1 0\n' >"$folder/bin/lsmod"
    chmod +x "$folder/bin/lsmod"
    old_rocminfo() {
        try "$1" "$2" env PATH="$folder/bin:$PATH" LD_LIBRARY_PATH="$old/usr/lib/$machine" LD_PRELOAD="$library" $3 \
            "$old/usr/bin/rocminfo"
    }
    old_rocminfo "rocminfo 5.2.3 on gfx1100 finishes" '^\*\*\* Done \*\*\*' ""
    old_rocminfo "rocminfo 5.2.3 on gfx1100 as gfx1030" '  Name: *gfx1030' HSA_OVERRIDE_GFX_VERSION=10.3.0
else
    skip "rocminfo 5.2.3 isn't there"
fi

if [ -x "$new/usr/bin/rocminfo" ]; then
    for chip in gfx1100 gfx1151; do
        try "rocminfo 6.1.2 on $chip" "  Name: *$chip" \
            sh "$0" "$library" "$folder" preloaded "$chip" 6.12 strict "$new/usr/bin/rocminfo"
    done
    if command -v cc >/dev/null && cc -O1 -I"$new/usr/include" "$here/dispatch.c" -o "$folder/dispatch" \
        -L"$libraries" -l:libhsa-runtime64.so.1 -Wl,--allow-shlib-undefined; then
        clang=$(command -v clang-19 || command -v clang || true)
        for chip in gfx1100 gfx1151; do
            # ROCr 6.1.2 computes too small a save area for gfx1151, which 6.12 refuses (issue of both, not of ours).
            kernel=6.12
            [ "$chip" = gfx1100 ] || kernel=6.1
            if [ -z "$clang" ] || ! "$clang" -x cl -cl-std=CL2.0 --target=amdgcn-amd-amdhsa -mcpu="$chip" -O2 -nogpulib \
                -Xclang -finclude-default-header "$here/../opencl/samples.cl" -o "$folder/clang-$chip.co" 2>/dev/null; then
                skip "no clang with AMDGPU here"
                rm -f "$folder/clang-$chip.co"
            fi
            for object in own clang; do
                [ -f "$folder/$object-$chip.co" ] || continue
                try "ROCr 6.1.2 runs $object code on $chip, kernel $kernel" "^$chip: 100 dispatches" \
                    sh "$0" "$library" "$folder" preloaded "$chip" "$kernel" strict \
                    "$folder/dispatch" "$folder/$object-$chip.co" "$chip"
            done
        done
    else
        skip "no C compiler for the HSA program"
    fi
else
    skip "rocminfo 6.1.2 isn't there"
fi

export PYTHONPATH="$folder/tinygrad" CACHEDB="$folder/tinygrad.db"
llvm='from tinygrad.runtime.autogen import llvm; llvm.dll.LLVMCreatePassBuilderOptions; llvm.dll.LLVMInitializeAMDGPUTarget'
if [ -d "$folder/tinygrad/tinygrad" ] && python3 -c "$llvm" 2>/dev/null; then
    version=$(python3 -c 'import importlib.metadata as m; print(m.version("tinygrad"))')
    for chip in gfx1100 gfx1151 gfx1200; do
        for packets in PM4 AQL; do
            aql=0
            [ $packets = PM4 ] || aql=1
            try "tinygrad $version on $chip by $packets" "^$chip softmax" \
                env DEV=AMD:LLVM AMD_AQL=$aql DOORBELL_SHIM_CHIP=$chip DOORBELL_SHIM_SCALAR_READS=0 LD_PRELOAD="$library" python3 "$here/tinygrad_ops.py"
        done
    done
else
    skip "tinygrad isn't there, or no libLLVM with AMDGPU that it finds"
fi

echo "$ran runs of foreign clients, $failed failed"
[ "$ran" != 0 ] || exit 77
[ "$failed" = 0 ]
