//! Scalar memory loads, prefetches and cache control.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Smem;
    s_load_b32             [0x00 0x00 0x00] B32 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_b64             [0x01 0x01 0x01] B64 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_b128            [0x02 0x02 0x02] B128 = R64 SOFFSET          , {LOAD}, Smem;
    s_load_b256            [0x03 0x03 0x03] B256 = R64 SOFFSET          , {LOAD}, Smem;
    s_load_b512            [0x04 0x04 0x04] B512 = R64 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_b32      [0x08 0x08 0x10] B32 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_b64      [0x09 0x09 0x11] B64 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_b128     [0x0a 0x0a 0x12] B128 = R128 SOFFSET         , {LOAD}, Smem;
    s_buffer_load_b256     [0x0b 0x0b 0x13] B256 = R128 SOFFSET         , {LOAD}, Smem;
    s_buffer_load_b512     [0x0c 0x0c 0x14] B512 = R128 SOFFSET         , {LOAD}, Smem;
    s_gl1_inv              [0x20 0x20    -] =                           , {INVALIDATES}, Smem;
    s_dcache_inv           [0x21 0x21 0x21] =                           , {INVALIDATES}, Smem;
    s_load_b96             [   -    - 0x05] B96 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_i8              [   -    - 0x08] B32 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_u8              [   -    - 0x09] B32 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_i16             [   -    - 0x0a] B32 = R64 SOFFSET           , {LOAD}, Smem;
    s_load_u16             [   -    - 0x0b] B32 = R64 SOFFSET           , {LOAD}, Smem;
    s_buffer_load_b96      [   -    - 0x15] B96 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_i8       [   -    - 0x18] B32 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_u8       [   -    - 0x19] B32 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_i16      [   -    - 0x1a] B32 = R128 SOFFSET          , {LOAD}, Smem;
    s_buffer_load_u16      [   -    - 0x1b] B32 = R128 SOFFSET          , {LOAD}, Smem;
    s_prefetch_inst        [   -    - 0x24] = R64 SIMM24 SOFFREG LENGTH , {PREFETCH}, Smem;
    s_prefetch_inst_pc_rel [   -    - 0x25] = SIMM24 SOFFREG LENGTH     , {PREFETCH}, Smem;
    s_prefetch_data        [   -    - 0x26] = R64 SIMM24 SOFFREG LENGTH , {PREFETCH}, Smem;
    s_buffer_prefetch_data [   -    - 0x27] = R128 SIMM24 SOFFREG LENGTH, {PREFETCH}, Smem;
    s_prefetch_data_pc_rel [   -    - 0x28] = SIMM24 SOFFREG LENGTH     , {PREFETCH}, Smem;
}
