//! Flat memory: the address decides between global, LDS and scratch.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Flat;
    flat_load_u8              [0x10 0x10 0x10] B32 = ADDR64     , {LOAD}, Flat;
    flat_load_i8              [0x11 0x11 0x11] B32 = ADDR64     , {LOAD}, Flat;
    flat_load_u16             [0x12 0x12 0x12] B32 = ADDR64     , {LOAD}, Flat;
    flat_load_i16             [0x13 0x13 0x13] B32 = ADDR64     , {LOAD}, Flat;
    flat_load_b32             [0x14 0x14 0x14] B32 = ADDR64     , {LOAD}, Flat;
    flat_load_b64             [0x15 0x15 0x15] B64 = ADDR64     , {LOAD}, Flat;
    flat_load_b96             [0x16 0x16 0x16] B96 = ADDR64     , {LOAD}, Flat;
    flat_load_b128            [0x17 0x17 0x17] B128 = ADDR64    , {LOAD}, Flat;
    flat_store_b8             [0x18 0x18 0x18] = ADDR64 B32     , {STORE}, Flat;
    flat_store_b16            [0x19 0x19 0x19] = ADDR64 B32     , {STORE}, Flat;
    flat_store_b32            [0x1a 0x1a 0x1a] = ADDR64 B32     , {STORE}, Flat;
    flat_store_b64            [0x1b 0x1b 0x1b] = ADDR64 B64     , {STORE}, Flat;
    flat_store_b96            [0x1c 0x1c 0x1c] = ADDR64 B96     , {STORE}, Flat;
    flat_store_b128           [0x1d 0x1d 0x1d] = ADDR64 B128    , {STORE}, Flat;
    flat_load_d16_u8          [0x1e 0x1e 0x1e] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_load_d16_i8          [0x1f 0x1f 0x1f] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_load_d16_b16         [0x20 0x20 0x20] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_load_d16_hi_u8       [0x21 0x21 0x21] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_load_d16_hi_i8       [0x22 0x22 0x22] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_load_d16_hi_b16      [0x23 0x23 0x23] B32 = ADDR64     , {LOAD READS_DST}, Flat;
    flat_store_d16_hi_b8      [0x24 0x24 0x24] = ADDR64 B32     , {STORE}, Flat;
    flat_store_d16_hi_b16     [0x25 0x25 0x25] = ADDR64 B32     , {STORE}, Flat;
    flat_atomic_swap_b32      [0x33 0x33 0x33] B32 = ADDR64 B32 , {ATOMIC}, Flat;
    flat_atomic_cmpswap_b32   [0x34 0x34 0x34] B32 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_add_u32       [0x35 0x35 0x35] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_sub_u32       [0x36 0x36 0x36] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_min_i32       [0x38 0x38 0x38] I32 = ADDR64 I32 , {ATOMIC}, Flat;
    flat_atomic_min_u32       [0x39 0x39 0x39] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_max_i32       [0x3a 0x3a 0x3a] I32 = ADDR64 I32 , {ATOMIC}, Flat;
    flat_atomic_max_u32       [0x3b 0x3b 0x3b] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_and_b32       [0x3c 0x3c 0x3c] B32 = ADDR64 B32 , {ATOMIC}, Flat;
    flat_atomic_or_b32        [0x3d 0x3d 0x3d] B32 = ADDR64 B32 , {ATOMIC}, Flat;
    flat_atomic_xor_b32       [0x3e 0x3e 0x3e] B32 = ADDR64 B32 , {ATOMIC}, Flat;
    flat_atomic_inc_u32       [0x3f 0x3f 0x3f] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_dec_u32       [0x40 0x40 0x40] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_swap_b64      [0x41 0x41 0x41] B64 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_cmpswap_b64   [0x42 0x42 0x42] B64 = ADDR64 B128, {ATOMIC}, Flat;
    flat_atomic_add_u64       [0x43 0x43 0x43] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_sub_u64       [0x44 0x44 0x44] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_min_i64       [0x45 0x45 0x45] I64 = ADDR64 I64 , {ATOMIC}, Flat;
    flat_atomic_min_u64       [0x46 0x46 0x46] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_max_i64       [0x47 0x47 0x47] I64 = ADDR64 I64 , {ATOMIC}, Flat;
    flat_atomic_max_u64       [0x48 0x48 0x48] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_and_b64       [0x49 0x49 0x49] B64 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_or_b64        [0x4a 0x4a 0x4a] B64 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_xor_b64       [0x4b 0x4b 0x4b] B64 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_inc_u64       [0x4c 0x4c 0x4c] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_dec_u64       [0x4d 0x4d 0x4d] U64 = ADDR64 U64 , {ATOMIC}, Flat;
    flat_atomic_cmpswap_f32   [0x50 0x50    -] B32 = ADDR64 B64 , {ATOMIC}, Flat;
    flat_atomic_min_f32       [0x51 0x51    -] F32 = ADDR64 F32 , {ATOMIC}, Flat;
    flat_atomic_max_f32       [0x52 0x52    -] F32 = ADDR64 F32 , {ATOMIC}, Flat;
    flat_atomic_add_f32       [0x56 0x56 0x56] F32 = ADDR64 F32 , {ATOMIC}, Flat;
    flat_atomic_sub_clamp_u32 [   -    - 0x37] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_cond_sub_u32  [   -    - 0x50] U32 = ADDR64 U32 , {ATOMIC}, Flat;
    flat_atomic_min_num_f32   [   -    - 0x51] F32 = ADDR64 F32 , {ATOMIC}, Flat;
    flat_atomic_max_num_f32   [   -    - 0x52] F32 = ADDR64 F32 , {ATOMIC}, Flat;
    flat_atomic_pk_add_f16    [   -    - 0x59] B32 = ADDR64 B32 , {ATOMIC}, Flat;
    flat_atomic_pk_add_bf16   [   -    - 0x5a] B32 = ADDR64 B32 , {ATOMIC}, Flat;
}
