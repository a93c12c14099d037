//! 64-bit vector instructions with a second, scalar, destination.
//!
//! One row per instruction: name, opcode on gfx11, gfx11.5 and gfx12 (`-` is absent), destinations = sources in
//! text order, flags, timing class. Kinds: `operand_kind.rs`; flags: `row.rs`. Not here: any code.

use super::rows;

rows! { Vop3sd;
    v_div_scale_f32  [0x2fc 0x2fc 0x2fc] F32 MASK = F32 F32 F32, {CLAMP OMOD}, Valu;
    v_div_scale_f64  [0x2fd 0x2fd 0x2fd] F64 MASK = F64 F64 F64, {CLAMP OMOD}, F64;
    v_mad_u64_u32    [0x2fe 0x2fe    -] U64 MASK = U32 U32 U64, {CLAMP}, Quarter;
    v_mad_i64_i32    [0x2ff 0x2ff    -] I64 MASK = I32 I32 I64, {CLAMP}, Quarter;
    v_add_co_u32     [0x300 0x300 0x300] U32 MASK = U32 U32    , {DPP CLAMP}, Valu;
    v_sub_co_u32     [0x301 0x301 0x301] U32 MASK = U32 U32    , {DPP CLAMP}, Valu;
    v_subrev_co_u32  [0x302 0x302 0x302] U32 MASK = U32 U32    , {DPP CLAMP}, Valu;
    v_mad_co_u64_u32 [   -    - 0x2fe] U64 MASK = U32 U32 U64, {CLAMP}, Quarter;
    v_mad_co_i64_i32 [   -    - 0x2ff] I64 MASK = I32 I32 I64, {CLAMP}, Quarter;
}
