//! Scalar comparisons; the result is SCC.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Sopc;
    s_cmp_eq_i32  [0x00 0x00 0x00] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_lg_i32  [0x01 0x01 0x01] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_gt_i32  [0x02 0x02 0x02] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_ge_i32  [0x03 0x03 0x03] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_lt_i32  [0x04 0x04 0x04] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_le_i32  [0x05 0x05 0x05] = I32 I32, {SCC_OUT}, Salu;
    s_cmp_eq_u32  [0x06 0x06 0x06] = U32 U32, {SCC_OUT}, Salu;
    s_cmp_lg_u32  [0x07 0x07 0x07] = U32 U32, {SCC_OUT}, Salu;
    s_cmp_gt_u32  [0x08 0x08 0x08] = U32 U32, {SCC_OUT}, Salu;
    s_cmp_ge_u32  [0x09 0x09 0x09] = U32 U32, {SCC_OUT}, Salu;
    s_cmp_lt_u32  [0x0a 0x0a 0x0a] = U32 U32, {SCC_OUT}, Salu;
    s_cmp_le_u32  [0x0b 0x0b 0x0b] = U32 U32, {SCC_OUT}, Salu;
    s_bitcmp0_b32 [0x0c 0x0c 0x0c] = B32 B32, {SCC_OUT}, Salu;
    s_bitcmp1_b32 [0x0d 0x0d 0x0d] = B32 B32, {SCC_OUT}, Salu;
    s_bitcmp0_b64 [0x0e 0x0e 0x0e] = B64 B32, {SCC_OUT}, Salu;
    s_bitcmp1_b64 [0x0f 0x0f 0x0f] = B64 B32, {SCC_OUT}, Salu;
    s_cmp_eq_u64  [0x10 0x10 0x10] = U64 U64, {SCC_OUT}, Salu;
    s_cmp_lg_u64  [0x11 0x11 0x11] = U64 U64, {SCC_OUT}, Salu;
    s_cmp_lt_f32  [   - 0x41 0x41] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_eq_f32  [   - 0x42 0x42] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_le_f32  [   - 0x43 0x43] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_gt_f32  [   - 0x44 0x44] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_lg_f32  [   - 0x45 0x45] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_ge_f32  [   - 0x46 0x46] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_o_f32   [   - 0x47 0x47] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_u_f32   [   - 0x48 0x48] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_nge_f32 [   - 0x49 0x49] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_nlg_f32 [   - 0x4a 0x4a] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_ngt_f32 [   - 0x4b 0x4b] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_nle_f32 [   - 0x4c 0x4c] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_neq_f32 [   - 0x4d 0x4d] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_nlt_f32 [   - 0x4e 0x4e] = F32 F32, {SCC_OUT}, SaluFloat;
    s_cmp_lt_f16  [   - 0x51 0x51] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_eq_f16  [   - 0x52 0x52] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_le_f16  [   - 0x53 0x53] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_gt_f16  [   - 0x54 0x54] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_lg_f16  [   - 0x55 0x55] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_ge_f16  [   - 0x56 0x56] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_o_f16   [   - 0x57 0x57] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_u_f16   [   - 0x58 0x58] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_nge_f16 [   - 0x59 0x59] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_nlg_f16 [   - 0x5a 0x5a] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_ngt_f16 [   - 0x5b 0x5b] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_nle_f16 [   - 0x5c 0x5c] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_neq_f16 [   - 0x5d 0x5d] = F16 F16, {SCC_OUT}, SaluFloat;
    s_cmp_nlt_f16 [   - 0x5e 0x5e] = F16 F16, {SCC_OUT}, SaluFloat;
}
