//! Packed pairs of 16-bit values: the one-register handlers applied to both halves.
//!
//! Not here: the handlers (`small.rs`, `half.rs`, `minmax.rs`).

use doorbell_isa::{Op, op};

use super::super::handler::Run;
use super::{half, small};

pub(super) static TABLE: &[(Op, Run)] = &[
    (op::v_pk_mad_i16, Run::Packed(small::MAD_I)),
    (op::v_pk_mad_u16, Run::Packed(small::MAD_U)),
    (op::v_pk_mul_lo_u16, Run::Packed(small::MUL_LO)),
    (op::v_pk_add_i16, Run::Packed(small::ADD_I)),
    (op::v_pk_sub_i16, Run::Packed(small::SUB_I)),
    (op::v_pk_add_u16, Run::Packed(small::ADD_U)),
    (op::v_pk_sub_u16, Run::Packed(small::SUB_U)),
    (op::v_pk_lshlrev_b16, Run::Packed(small::LSHLREV)),
    (op::v_pk_lshrrev_b16, Run::Packed(small::LSHRREV)),
    (op::v_pk_ashrrev_i16, Run::Packed(small::ASHRREV)),
    (op::v_pk_max_i16, Run::Packed(small::MAX_I)),
    (op::v_pk_min_i16, Run::Packed(small::MIN_I)),
    (op::v_pk_max_u16, Run::Packed(small::MAX_U)),
    (op::v_pk_min_u16, Run::Packed(small::MIN_U)),
    (op::v_pk_fma_f16, Run::Packed(half::FMA)),
    (op::v_pk_fmac_f16, Run::Packed(half::FMAC)),
    (op::v_pk_add_f16, Run::Packed(half::ADD)),
    (op::v_pk_mul_f16, Run::Packed(half::MUL)),
];
