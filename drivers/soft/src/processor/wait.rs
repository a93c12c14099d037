//! Waits: the counts of outstanding operations that a wait instruction lets through.
//!
//! Not here: the outstanding operations (`tracker.rs`).

use doorbell_isa::{Generation, Inst, Operand, Target};

/// Counts that a wait lets through; `None` leaves a counter alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) load: Option<usize>,
    pub(crate) store: Option<usize>,
    pub(crate) lds: Option<usize>,
    pub(crate) scalar: Option<usize>,
    /// lgkmcnt of gfx11: LDS and scalar operations together.
    pub(crate) shared: Option<usize>,
}

impl Wait {
    const ALL: Self = Self { load: Some(0), store: Some(0), lds: Some(0), scalar: Some(0), shared: None };

    /// The counts of a wait instruction; `None` for other instructions.
    pub(crate) fn of(inst: &Inst, target: Target) -> Option<Self> {
        let value = inst.src().last().and_then(|operand| match operand {
            Operand::Immediate(value) => Some(value.cast_unsigned() as usize),
            _ => None,
        });
        let value = value.unwrap_or(0);
        let gfx12 = target.generation() == Generation::Gfx12;
        let none = Self::default();
        let field = |shift: usize| Some(value >> shift & 63);
        Some(match inst.op.name() {
            "s_waitcnt" if gfx12 => Self::ALL,
            "s_waitcnt" => Self { load: field(10), shared: field(4), ..none },
            "s_wait_idle" => Self::ALL,
            "s_waitcnt_vscnt" | "s_wait_storecnt" => Self { store: Some(value), ..none },
            "s_waitcnt_vmcnt" | "s_wait_loadcnt" => Self { load: Some(value), ..none },
            "s_waitcnt_lgkmcnt" => Self { shared: Some(value), ..none },
            "s_wait_dscnt" => Self { lds: Some(value), ..none },
            "s_wait_kmcnt" => Self { scalar: Some(value), ..none },
            "s_wait_loadcnt_dscnt" => Self { load: field(8), lds: field(0), ..none },
            "s_wait_storecnt_dscnt" => Self { store: field(8), lds: field(0), ..none },
            _ => return None,
        })
    }
}
