#!/usr/bin/env bash
# Builds the oracle against a llama.cpp tree and its static build: build.sh TREE BUILD OUT
set -euo pipefail
tree=$1 build=$2 out=$3
here=$(dirname "$0")
g++ -O2 -std=c++17 -I"$tree/include" -I"$tree/ggml/include" "$here/logits.cpp" -o "$out" \
    "$build/src/libllama.a" "$build/ggml/src/libggml.a" "$build/ggml/src/libggml-cpu.a" \
    "$build/ggml/src/libggml-base.a" -fopenmp -lpthread -ldl -lm
