// Runs ggml's own block routines for make.py: ggml OPERATION TYPE_ID, data on stdin, result on stdout.
//   dequantize  blocks                      -> f32
//   quantize    f32                         -> blocks (the CPU backend's routine, not the portable reference)
//   dot         f32 activations, then blocks -> f32 (activations brought into the type's dot format first)
#include "ggml-cpu.h"
#include "ggml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char ** argv) {
    if (argc != 3) {
        return 2;
    }
    ggml_cpu_init();
    const enum ggml_type type = atoi(argv[2]);
    const struct ggml_type_traits_cpu * cpu = ggml_get_type_traits_cpu(type);
    static char input[1 << 20], output[1 << 22];
    const size_t bytes = fread(input, 1, sizeof input, stdin);
    size_t count = bytes / ggml_type_size(type) * ggml_blck_size(type);

    if (strcmp(argv[1], "dequantize") == 0) {
        ggml_get_type_traits(type)->to_float(input, (float *) output, count);
        fwrite(output, 4, count, stdout);
    } else if (strcmp(argv[1], "quantize") == 0) {
        count = bytes / 4;
        cpu->from_float((const float *) input, output, count);
        fwrite(output, 1, ggml_row_size(type, count), stdout);
    } else if (strcmp(argv[1], "dot") == 0) {
        const size_t per_256 = 1024 + ggml_row_size(type, 256);
        float sum = 0;
        count = bytes / per_256 * 256;
        ggml_get_type_traits_cpu(cpu->vec_dot_type)->from_float((const float *) input, output, count);
        cpu->vec_dot(count, &sum, 0, input + 4 * count, 0, output, 0, 1);
        fwrite(&sum, 4, 1, stdout);
    } else {
        return 2;
    }
    return 0;
}
