//! Arithmetic operations of the IR as a table: types, and the instructions of both ALUs.
//!
//! Not here: choosing between them (`pass/legalize.rs`).

use super::Elem;
use doorbell_isa::{Op, op};

/// An arithmetic operation; index of a row of [`ALU`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Alu(pub(crate) u8);

/// One arithmetic operation.
#[derive(Debug)]
pub struct AluRow {
    /// Name in IR text.
    pub name: &'static str,
    /// Operand types.
    pub args: &'static [Elem],
    /// Result type.
    pub result: Elem,
    /// Vector instructions, in order of preference: the first that the target has.
    pub vector: &'static [Op],
    /// Scalar instructions likewise; the target may have none.
    pub scalar: &'static [Op],
    /// Operands stand in reverse order in the vector instruction (`rev` shifts).
    pub reversed: bool,
    /// The first two operands may be exchanged.
    pub commutes: bool,
}

impl Alu {
    /// Every operation, in the table's order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0u8..).zip(ALU).map(|(index, _)| Self(index))
    }

    /// The row.
    pub fn row(self) -> &'static AluRow {
        &ALU[usize::from(self.0)]
    }
}

macro_rules! alu {
    ($($name:ident: ($($arg:ident)*) $result:ident, [$($vector:ident)*] [$($scalar:ident)*] $($flag:ident)*;)*) => {
        #[expect(non_camel_case_types, reason = "row names double as constants")]
        enum Index { $($name),* }

        #[expect(non_upper_case_globals, reason = "operation names keep their spelling")]
        impl Alu {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Self = Self(Index::$name as u8);
            )*
        }

        /// All arithmetic operations.
        pub static ALU: &[AluRow] = &[$(
            AluRow {
                name: stringify!($name),
                args: &[$(Elem::$arg),*],
                result: Elem::$result,
                vector: &[$(op::$vector),*],
                scalar: &[$(op::$scalar),*],
                reversed: flags!(reversed $($flag)*),
                commutes: flags!(commutes $($flag)*),
            },
        )*];
    };
}

macro_rules! flags {
    ($wanted:ident) => { false };
    (reversed reversed $($rest:ident)*) => { true };
    (commutes commutes $($rest:ident)*) => { true };
    ($wanted:ident $other:ident $($rest:ident)*) => { flags!($wanted $($rest)*) };
}

alu! {
    add: (Int Int) Int, [v_add_nc_u32] [s_add_u32 s_add_co_u32] commutes;
    sub: (Int Int) Int, [v_sub_nc_u32] [s_sub_u32 s_sub_co_u32];
    mul: (Int Int) Int, [v_mul_lo_u32] [s_mul_i32] commutes;
    mul24: (Int Int) Int, [v_mul_u32_u24] [s_mul_i32] commutes;
    mad24: (Int Int Int) Int, [v_mad_u32_u24] [] commutes;
    and: (Int Int) Int, [v_and_b32] [s_and_b32] commutes;
    or: (Int Int) Int, [v_or_b32] [s_or_b32] commutes;
    xor: (Int Int) Int, [v_xor_b32] [s_xor_b32] commutes;
    and_or: (Int Int Int) Int, [v_and_or_b32] [] commutes;
    shl: (Int Int) Int, [v_lshlrev_b32] [s_lshl_b32] reversed;
    shr: (Int Int) Int, [v_lshrrev_b32] [s_lshr_b32] reversed;
    sar: (Int Int) Int, [v_ashrrev_i32] [s_ashr_i32] reversed;
    shl_add: (Int Int Int) Int, [v_lshl_add_u32] [];
    bfe: (Int Int Int) Int, [v_bfe_u32] [];
    perm: (Int Int Int) Int, [v_perm_b32] [];
    min_u: (Int Int) Int, [v_min_u32] [s_min_u32] commutes;
    max_u: (Int Int) Int, [v_max_u32] [s_max_u32] commutes;
    min_i: (Int Int) Int, [v_min_i32] [s_min_i32] commutes;
    max_i: (Int Int) Int, [v_max_i32] [s_max_i32] commutes;
    med3_i: (Int Int Int) Int, [v_med3_i32] [];
    not: (Int) Int, [v_not_b32] [s_not_b32];
    mul_hi: (Int Int) Int, [v_mul_hi_u32] [s_mul_hi_u32] commutes;
    bfe_i: (Int Int Int) Int, [v_bfe_i32] [];
    bfi: (Int Int Int) Int, [v_bfi_b32] [];
    alignbit: (Int Int Int) Int, [v_alignbit_b32] [];
    add3: (Int Int Int) Int, [v_add3_u32] [] commutes;
    shl_or: (Int Int Int) Int, [v_lshl_or_b32] [];
    fadd: (Float Float) Float, [v_add_f32] [s_add_f32] commutes;
    fsub: (Float Float) Float, [v_sub_f32] [s_sub_f32];
    fmul: (Float Float) Float, [v_mul_f32] [s_mul_f32] commutes;
    fma: (Float Float Float) Float, [v_fma_f32] [] commutes;
    fmax: (Float Float) Float, [v_max_f32 v_max_num_f32] [s_max_f32 s_max_num_f32] commutes;
    fmin: (Float Float) Float, [v_min_f32 v_min_num_f32] [s_min_f32 s_min_num_f32] commutes;
    med3: (Float Float Float) Float, [v_med3_f32 v_med3_num_f32] [];
    rint: (Float) Float, [v_rndne_f32] [s_rndne_f32];
    floor: (Float) Float, [v_floor_f32] [s_floor_f32];
    trunc: (Float) Float, [v_trunc_f32] [s_trunc_f32];
    ldexp: (Float Int) Float, [v_ldexp_f32] [];
    exp2: (Float) Float, [v_exp_f32] [];
    log2: (Float) Float, [v_log_f32] [];
    rcp: (Float) Float, [v_rcp_f32] [];
    rsq: (Float) Float, [v_rsq_f32] [];
    sqrt: (Float) Float, [v_sqrt_f32] [];
    sin: (Float) Float, [v_sin_f32] [];
    cos: (Float) Float, [v_cos_f32] [];
    cvt_u_f: (Float) Int, [v_cvt_u32_f32] [s_cvt_u32_f32];
    cvt_i_f: (Float) Int, [v_cvt_i32_f32] [s_cvt_i32_f32];
    cvt_h_f: (Float) HalfPair, [v_cvt_f16_f32] [s_cvt_f16_f32];
    pack_h: (HalfPair HalfPair) HalfPair, [v_pack_b32_f16] [s_pack_ll_b32_b16];
    dot2: (HalfPair HalfPair Float) Float, [v_dot2_f32_f16] [];
    cvt_f_u: (Int) Float, [v_cvt_f32_u32] [s_cvt_f32_u32];
    cvt_f_i: (Int) Float, [v_cvt_f32_i32] [s_cvt_f32_i32];
    cvt_f_h: (HalfPair) Float, [v_cvt_f32_f16] [s_cvt_f32_f16];
    cvt_f_u8_0: (Int) Float, [v_cvt_f32_ubyte0] [];
    cvt_f_u8_1: (Int) Float, [v_cvt_f32_ubyte1] [];
    cvt_f_u8_2: (Int) Float, [v_cvt_f32_ubyte2] [];
    cvt_f_u8_3: (Int) Float, [v_cvt_f32_ubyte3] [];
    cvt_pk_h: (Float Float) HalfPair, [v_cvt_pk_rtz_f16_f32] [s_cvt_pk_rtz_f16_f32];
    pk_fma: (HalfPair HalfPair HalfPair) HalfPair, [v_pk_fma_f16] [] commutes;
    pk_mul: (HalfPair HalfPair) HalfPair, [v_pk_mul_f16] [] commutes;
    pk_add: (HalfPair HalfPair) HalfPair, [v_pk_add_f16] [] commutes;
    lt_u: (Int Int) Bool, [v_cmp_lt_u32] [s_cmp_lt_u32];
    ge_u: (Int Int) Bool, [v_cmp_ge_u32] [s_cmp_ge_u32];
    le_u: (Int Int) Bool, [v_cmp_le_u32] [s_cmp_le_u32];
    gt_u: (Int Int) Bool, [v_cmp_gt_u32] [s_cmp_gt_u32];
    le_i: (Int Int) Bool, [v_cmp_le_i32] [s_cmp_le_i32];
    gt_i: (Int Int) Bool, [v_cmp_gt_i32] [s_cmp_gt_i32];
    ge_i: (Int Int) Bool, [v_cmp_ge_i32] [s_cmp_ge_i32];
    lt_i: (Int Int) Bool, [v_cmp_lt_i32] [s_cmp_lt_i32];
    eq: (Int Int) Bool, [v_cmp_eq_u32] [s_cmp_eq_u32] commutes;
    ne: (Int Int) Bool, [v_cmp_ne_u32] [s_cmp_lg_u32] commutes;
    flt: (Float Float) Bool, [v_cmp_lt_f32] [s_cmp_lt_f32];
    fgt: (Float Float) Bool, [v_cmp_gt_f32] [s_cmp_gt_f32];
    fle: (Float Float) Bool, [v_cmp_le_f32] [s_cmp_le_f32];
    fge: (Float Float) Bool, [v_cmp_ge_f32] [s_cmp_ge_f32];
    feq: (Float Float) Bool, [v_cmp_eq_f32] [s_cmp_eq_f32] commutes;
    fne: (Float Float) Bool, [v_cmp_neq_f32] [s_cmp_neq_f32] commutes;
}
