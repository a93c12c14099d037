#!/bin/sh
# Makes the code objects and the host's results in ../../goldens/soft. Needs clang-19 and lld; cargo test needs neither.
set -e
cd "$(dirname "$0")"
out=../../goldens/soft
for chip in gfx1100 gfx1151 gfx1200; do
  for level in 0 2; do
    clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=$chip -nogpulib -O$level -ffp-contract=off \
      -cl-fp32-correctly-rounded-divide-sqrt -Wno-everything programs.cl -o $out/$chip-O$level.co
    llvm-strip-19 $out/$chip-O$level.co
  done
  clang-19 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=$chip -nogpulib -O2 -Wno-everything driver.cl -o $out/$chip-driver.co
done
clang-19 -O1 -ffp-contract=off -fwrapv -Wno-everything host.c -lm -o /tmp/doorbell-soft-host
/tmp/doorbell-soft-host > $out/items.txt
rm /tmp/doorbell-soft-host
