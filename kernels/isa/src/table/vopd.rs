//! Halves of dual-issue instructions. A VOPD instruction is two of them; the first (X) may be any with opcode below
//! 16, the second (Y) any.
//!
//! One row per half: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in text
//! order, flags, timing class. Not here: the register-bank rules (`check.rs`).

use super::rows;

rows! { Vopd;
    v_dual_fmac_f32         [0x00 0x00 0x00] F32 = F32 F32    , {READS_DST}, Valu;
    v_dual_fmaak_f32        [0x01 0x01 0x01] F32 = F32 F32 K32, {}, Valu;
    v_dual_fmamk_f32        [0x02 0x02 0x02] F32 = F32 K32 F32, {}, Valu;
    v_dual_mul_f32          [0x03 0x03 0x03] F32 = F32 F32    , {}, Valu;
    v_dual_add_f32          [0x04 0x04 0x04] F32 = F32 F32    , {}, Valu;
    v_dual_sub_f32          [0x05 0x05 0x05] F32 = F32 F32    , {}, Valu;
    v_dual_subrev_f32       [0x06 0x06 0x06] F32 = F32 F32    , {}, Valu;
    v_dual_mul_dx9_zero_f32 [0x07 0x07 0x07] F32 = F32 F32    , {}, Valu;
    v_dual_mov_b32          [0x08 0x08 0x08] B32 = B32        , {}, Valu;
    v_dual_cndmask_b32      [0x09 0x09 0x09] B32 = B32 B32    , {VCC_IN}, Valu;
    v_dual_max_f32          [0x0a 0x0a    -] F32 = F32 F32    , {}, Valu;
    v_dual_min_f32          [0x0b 0x0b    -] F32 = F32 F32    , {}, Valu;
    v_dual_max_num_f32      [   -    - 0x0a] F32 = F32 F32    , {}, Valu;
    v_dual_min_num_f32      [   -    - 0x0b] F32 = F32 F32    , {}, Valu;
    v_dual_dot2acc_f32_f16  [0x0c 0x0c    -] F32 = PF16 PF16  , {READS_DST}, Valu;
    v_dual_add_nc_u32       [0x10 0x10 0x10] U32 = U32 U32    , {}, Valu;
    v_dual_lshlrev_b32      [0x11 0x11 0x11] B32 = B32 B32    , {}, Valu;
    v_dual_and_b32          [0x12 0x12 0x12] B32 = B32 B32    , {}, Valu;
}
