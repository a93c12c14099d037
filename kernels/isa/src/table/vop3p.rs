//! Packed, dot-product and matrix instructions.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Vop3p;
    v_pk_mad_i16                                                 [0x00 0x00 0x00] PI16 = PI16 PI16 PI16, {CLAMP OPSEL NEG}, Valu;
    v_pk_mul_lo_u16                                              [0x01 0x01 0x01] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_add_i16                                                 [0x02 0x02 0x02] PI16 = PI16 PI16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_sub_i16                                                 [0x03 0x03 0x03] PI16 = PI16 PI16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_lshlrev_b16                                             [0x04 0x04 0x04] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_lshrrev_b16                                             [0x05 0x05 0x05] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_ashrrev_i16                                             [0x06 0x06 0x06] PI16 = PI16 PI16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_max_i16                                                 [0x07 0x07 0x07] PI16 = PI16 PI16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_min_i16                                                 [0x08 0x08 0x08] PI16 = PI16 PI16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_mad_u16                                                 [0x09 0x09 0x09] PU16 = PU16 PU16 PU16, {CLAMP OPSEL NEG}, Valu;
    v_pk_add_u16                                                 [0x0a 0x0a 0x0a] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_sub_u16                                                 [0x0b 0x0b 0x0b] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_max_u16                                                 [0x0c 0x0c 0x0c] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_min_u16                                                 [0x0d 0x0d 0x0d] PU16 = PU16 PU16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_fma_f16                                                 [0x0e 0x0e 0x0e] PF16 = PF16 PF16 PF16, {CLAMP OPSEL NEG}, Valu;
    v_pk_add_f16                                                 [0x0f 0x0f 0x0f] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_mul_f16                                                 [0x10 0x10 0x10] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_min_f16                                                 [0x11 0x11    -] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_max_f16                                                 [0x12 0x12    -] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_dot2_f32_f16                                               [0x13 0x13 0x13] F32 = PF16 PF16 F32  , {DPP CLAMP OPSEL NEG}, Valu;
    v_dot4_i32_iu8                                               [0x16 0x16 0x16] I32 = B32 B32 I32    , {CLAMP SIGNED}, Valu;
    v_dot4_u32_u8                                                [0x17 0x17 0x17] U32 = B32 B32 U32    , {CLAMP}, Valu;
    v_dot8_i32_iu4                                               [0x18 0x18 0x18] I32 = B32 B32 I32    , {CLAMP SIGNED}, Valu;
    v_dot8_u32_u4                                                [0x19 0x19 0x19] U32 = B32 B32 U32    , {CLAMP}, Valu;
    v_dot2_f32_bf16                                              [0x1a 0x1a 0x1a] F32 = PBF16 PBF16 F32, {CLAMP OPSEL NEG}, Valu;
    v_fma_mix_f32                                                [0x20 0x20 0x20] F32 = MIX MIX MIX    , {DPP CLAMP OPSEL}, Valu;
    v_fma_mixlo_f16                                              [0x21 0x21 0x21] F16 = MIX MIX MIX    , {DPP CLAMP OPSEL  READS_DST}, Valu;
    v_fma_mixhi_f16                                              [0x22 0x22 0x22] F16 = MIX MIX MIX    , {DPP CLAMP OPSEL  READS_DST}, Valu;
    v_wmma_f32_16x16x16_f16                                      [0x40 0x40    -] B256 = V256 V256 C256, {NEG MATRIX}, Matrix;
    v_wmma_f32_16x16x16_f16_gfx12 as v_wmma_f32_16x16x16_f16     [   -    - 0x40] B256 = V128 V128 C256, {NEG MATRIX}, Matrix;
    v_wmma_f32_16x16x16_bf16                                     [0x41 0x41    -] B256 = V256 V256 C256, {NEG MATRIX}, Matrix;
    v_wmma_f32_16x16x16_bf16_gfx12 as v_wmma_f32_16x16x16_bf16   [   -    - 0x41] B256 = V128 V128 C256, {NEG MATRIX}, Matrix;
    v_wmma_f16_16x16x16_f16                                      [0x42 0x42    -] B256 = V256 V256 C256, {OPSEL NEG MATRIX}, Matrix;
    v_wmma_f16_16x16x16_f16_gfx12 as v_wmma_f16_16x16x16_f16     [   -    - 0x42] B128 = V128 V128 C128, {NEG MATRIX}, Matrix;
    v_wmma_bf16_16x16x16_bf16                                    [0x43 0x43    -] B256 = V256 V256 C256, {OPSEL NEG MATRIX}, Matrix;
    v_wmma_bf16_16x16x16_bf16_gfx12 as v_wmma_bf16_16x16x16_bf16 [   -    - 0x43] B128 = V128 V128 C128, {NEG MATRIX}, Matrix;
    v_wmma_i32_16x16x16_iu8                                      [0x44 0x44    -] B256 = V128 V128 C256, {CLAMP SIGNED MATRIX}, Matrix;
    v_wmma_i32_16x16x16_iu8_gfx12 as v_wmma_i32_16x16x16_iu8     [   -    - 0x44] B256 = V64 V64 C256  , {CLAMP SIGNED MATRIX}, MatrixNarrow;
    v_wmma_i32_16x16x16_iu4                                      [0x45 0x45    -] B256 = V64 V64 C256  , {CLAMP SIGNED MATRIX}, MatrixNarrow;
    v_wmma_i32_16x16x16_iu4_gfx12 as v_wmma_i32_16x16x16_iu4     [   -    - 0x45] B256 = V32 V32 C256  , {CLAMP SIGNED MATRIX}, MatrixNarrow;
    v_pk_min_num_f16                                             [   -    - 0x1b] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_max_num_f16                                             [   -    - 0x1c] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_minimum_f16                                             [   -    - 0x1d] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_pk_maximum_f16                                             [   -    - 0x1e] PF16 = PF16 PF16     , {CLAMP OPSEL NEG}, Valu;
    v_dot4_f32_fp8_bf8                                           [   -    - 0x24] F32 = B32 B32 F32    , {DPP NEG_C}, Valu;
    v_dot4_f32_bf8_fp8                                           [   -    - 0x25] F32 = B32 B32 F32    , {DPP NEG_C}, Valu;
    v_dot4_f32_fp8_fp8                                           [   -    - 0x26] F32 = B32 B32 F32    , {DPP NEG_C}, Valu;
    v_dot4_f32_bf8_bf8                                           [   -    - 0x27] F32 = B32 B32 F32    , {DPP NEG_C}, Valu;
    v_wmma_f32_16x16x16_fp8_fp8                                  [   -    - 0x46] B256 = V64 V64 C256  , {NEG_C MATRIX}, MatrixNarrow;
    v_wmma_f32_16x16x16_fp8_bf8                                  [   -    - 0x47] B256 = V64 V64 C256  , {NEG_C MATRIX}, MatrixNarrow;
    v_wmma_f32_16x16x16_bf8_fp8                                  [   -    - 0x48] B256 = V64 V64 C256  , {NEG_C MATRIX}, MatrixNarrow;
    v_wmma_f32_16x16x16_bf8_bf8                                  [   -    - 0x49] B256 = V64 V64 C256  , {NEG_C MATRIX}, MatrixNarrow;
    v_wmma_i32_16x16x32_iu4                                      [   -    - 0x4a] B256 = V64 V64 C256  , {CLAMP SIGNED MATRIX}, MatrixNarrow;
    v_swmmac_f32_16x16x32_f16                                    [   -    - 0x50] B256 = V128 V256 V32 , {READS_DST NEG MATRIX}, Matrix;
    v_swmmac_f32_16x16x32_bf16                                   [   -    - 0x51] B256 = V128 V256 V32 , {READS_DST NEG MATRIX}, Matrix;
    v_swmmac_f16_16x16x32_f16                                    [   -    - 0x52] B128 = V128 V256 V32 , {READS_DST NEG MATRIX}, Matrix;
    v_swmmac_bf16_16x16x32_bf16                                  [   -    - 0x53] B128 = V128 V256 V32 , {READS_DST NEG MATRIX}, Matrix;
    v_swmmac_i32_16x16x32_iu8                                    [   -    - 0x54] B256 = V64 V128 V32  , {CLAMP READS_DST SIGNED MATRIX}, MatrixNarrow;
    v_swmmac_i32_16x16x32_iu4                                    [   -    - 0x55] B256 = V32 V64 V32   , {CLAMP READS_DST SIGNED MATRIX}, MatrixNarrow;
    v_swmmac_i32_16x16x64_iu4                                    [   -    - 0x56] B256 = V64 V128 V32  , {CLAMP READS_DST SIGNED MATRIX}, MatrixNarrow;
    v_swmmac_f32_16x16x32_fp8_fp8                                [   -    - 0x57] B256 = V64 V128 V32  , {READS_DST MATRIX}, MatrixNarrow;
    v_swmmac_f32_16x16x32_fp8_bf8                                [   -    - 0x58] B256 = V64 V128 V32  , {READS_DST MATRIX}, MatrixNarrow;
    v_swmmac_f32_16x16x32_bf8_fp8                                [   -    - 0x59] B256 = V64 V128 V32  , {READS_DST MATRIX}, MatrixNarrow;
    v_swmmac_f32_16x16x32_bf8_bf8                                [   -    - 0x5a] B256 = V64 V128 V32  , {READS_DST MATRIX}, MatrixNarrow;
}
