//! Vector instructions with two sources.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Vop2;
    v_cndmask_b32                        [0x01 0x01 0x01] B32 = F32 F32 MASK     , {DPP}, Valu;
    v_dot2acc_f32_f16                    [0x02 0x02    -] F32 = PF16 PF16        , {SHORT_ONLY DPP READS_DST}, Valu;
    v_add_f32                            [0x03 0x03 0x03] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_sub_f32                            [0x04 0x04 0x04] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_subrev_f32                         [0x05 0x05 0x05] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_fmac_dx9_zero_f32                  [0x06 0x06    -] F32 = F32 F32          , {CLAMP OMOD READS_DST}, Valu;
    v_mul_dx9_zero_f32                   [0x07 0x07 0x07] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_mul_f32                            [0x08 0x08 0x08] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_mul_i32_i24                        [0x09 0x09 0x09] I32 = I32 I32          , {DPP CLAMP}, Valu;
    v_mul_hi_i32_i24                     [0x0a 0x0a 0x0a] I32 = I32 I32          , {DPP}, Valu;
    v_mul_u32_u24                        [0x0b 0x0b 0x0b] U32 = U32 U32          , {DPP CLAMP}, Valu;
    v_mul_hi_u32_u24                     [0x0c 0x0c 0x0c] U32 = U32 U32          , {DPP}, Valu;
    v_min_f32                            [0x0f 0x0f    -] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_max_f32                            [0x10 0x10    -] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_min_i32                            [0x11 0x11 0x11] I32 = I32 I32          , {DPP}, Valu;
    v_max_i32                            [0x12 0x12 0x12] I32 = I32 I32          , {DPP}, Valu;
    v_min_u32                            [0x13 0x13 0x13] U32 = U32 U32          , {DPP}, Valu;
    v_max_u32                            [0x14 0x14 0x14] U32 = U32 U32          , {DPP}, Valu;
    v_lshlrev_b32                        [0x18 0x18 0x18] B32 = B32 B32          , {DPP}, Valu;
    v_lshrrev_b32                        [0x19 0x19 0x19] B32 = B32 B32          , {DPP}, Valu;
    v_ashrrev_i32                        [0x1a 0x1a 0x1a] I32 = I32 I32          , {DPP}, Valu;
    v_and_b32                            [0x1b 0x1b 0x1b] B32 = B32 B32          , {DPP}, Valu;
    v_or_b32                             [0x1c 0x1c 0x1c] B32 = B32 B32          , {DPP}, Valu;
    v_xor_b32                            [0x1d 0x1d 0x1d] B32 = B32 B32          , {DPP}, Valu;
    v_xnor_b32                           [0x1e 0x1e 0x1e] B32 = B32 B32          , {DPP}, Valu;
    v_add_co_ci_u32                      [0x20 0x20 0x20] U32 MASK = U32 U32 MASK, {DPP CLAMP}, Valu;
    v_sub_co_ci_u32                      [0x21 0x21 0x21] U32 MASK = U32 U32 MASK, {DPP CLAMP}, Valu;
    v_subrev_co_ci_u32                   [0x22 0x22 0x22] U32 MASK = U32 U32 MASK, {DPP CLAMP}, Valu;
    v_add_nc_u32                         [0x25 0x25 0x25] U32 = U32 U32          , {DPP CLAMP}, Valu;
    v_sub_nc_u32                         [0x26 0x26 0x26] U32 = U32 U32          , {DPP CLAMP}, Valu;
    v_subrev_nc_u32                      [0x27 0x27 0x27] U32 = U32 U32          , {DPP CLAMP}, Valu;
    v_fmac_f32                           [0x2b 0x2b 0x2b] F32 = F32 F32          , {DPP CLAMP OMOD READS_DST}, Valu;
    v_fmamk_f32                          [0x2c 0x2c 0x2c] F32 = F32 K32 F32      , {SHORT_ONLY}, Valu;
    v_fmaak_f32                          [0x2d 0x2d 0x2d] F32 = F32 F32 K32      , {SHORT_ONLY}, Valu;
    v_cvt_pk_rtz_f16_f32                 [0x2f 0x2f 0x2f] PF16 = F32 F32         , {DPP CLAMP OMOD}, Valu;
    v_add_f16                            [0x32 0x32 0x32] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_sub_f16                            [0x33 0x33 0x33] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_subrev_f16                         [0x34 0x34 0x34] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_mul_f16                            [0x35 0x35 0x35] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_fmac_f16                           [0x36 0x36 0x36] F16 = F16 F16          , {DPP CLAMP OMOD OPSEL READS_DST}, Valu;
    v_fmamk_f16                          [0x37 0x37 0x37] F16 = F16 K16 F16      , {SHORT_ONLY}, Valu;
    v_fmaak_f16                          [0x38 0x38 0x38] F16 = F16 F16 K16      , {SHORT_ONLY}, Valu;
    v_max_f16                            [0x39 0x39    -] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_min_f16                            [0x3a 0x3a    -] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_ldexp_f16                          [0x3b 0x3b 0x3b] F16 = F16 I16          , {DPP CLAMP OMOD}, Valu;
    v_pk_fmac_f16                        [0x3c 0x3c 0x3c] PF16 = PF16 PF16       , {SHORT_ONLY DPP READS_DST}, Valu;
    v_add_f64_gfx12 as v_add_f64         [   -    - 0x02] F64 = F64 F64          , {CLAMP OMOD}, F64;
    v_mul_f64_gfx12 as v_mul_f64         [   -    - 0x06] F64 = F64 F64          , {CLAMP OMOD}, F64;
    v_min_num_f64                        [   -    - 0x0d] F64 = F64 F64          , {CLAMP OMOD}, F64;
    v_max_num_f64                        [   -    - 0x0e] F64 = F64 F64          , {CLAMP OMOD}, F64;
    v_min_num_f32                        [   -    - 0x15] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_max_num_f32                        [   -    - 0x16] F32 = F32 F32          , {DPP CLAMP OMOD}, Valu;
    v_lshlrev_b64_gfx12 as v_lshlrev_b64 [   -    - 0x1f] B64 = B32 B64          , {}, Valu64;
    v_min_num_f16                        [   -    - 0x30] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
    v_max_num_f16                        [   -    - 0x31] F16 = F16 F16          , {DPP CLAMP OMOD}, Valu;
}
