// Control flow: divergent loops, switches, calls, recursion by stack, private arrays.
#define ID (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())

__attribute__((noinline)) static int collatz(uint n) {
    int steps = 0;
    while (n > 1) {
        n = n & 1 ? 3 * n + 1 : n >> 1;
        if (++steps > 1000) break;
    }
    return steps;
}

__attribute__((noinline)) static int choose(int op, int a, int b) {
    switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return b ? a / b : 0;
    case 4: return collatz(a);
    case 5: return a & b;
    default: return op;
    }
}

kernel void walk(global const int *program, global int *out, int length) {
    int id = ID;
    int stack[16];
    int top = 0;
    for (int i = 0; i < 16; ++i) stack[i] = id + i;
    for (int pc = 0; pc < length; ++pc) {
        int op = program[pc];
        int r = choose(op, stack[top & 15], stack[(top + id) & 15]);
        top = op & 1 ? top + 1 : top - 1;
        stack[top & 15] = r;
        if (r == 12345) break;
    }
    out[id] = stack[top & 15];
}

kernel void nested(global const float *in, global float *out, int n) {
    int id = ID;
    float best = 0.0f;
    for (int i = 0; i < n; ++i)
        for (int j = i; j < n; ++j) {
            float d = in[i] - in[j + id];
            if (d < 0) continue;
            if (d > best) best = d;
            else if (best - d > 1.0f) goto done;
        }
done:
    out[id] = best;
}
