//! Architectural state of one wave of 32 lanes.
//!
//! Not here: what instructions do with it, outstanding memory operations (`tracker.rs`).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use doorbell_isa::{Generation, Target};

use super::mode::Mode;
use super::registers::{EXEC, Lanes, NULL};
use super::tracker::Tracker;
use super::trap::Exceptions;
use crate::memory::Simd;

/// State of a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// Executes instructions.
    Runs,
    /// Waits at a barrier for other waves.
    AtBarrier,
    /// Stopped for good.
    Halted,
    /// Ended by s_endpgm.
    Ended,
}

/// One wave.
#[derive(Clone, Debug)]
pub(crate) struct Wave {
    /// Number in its workgroup.
    pub(crate) number: u32,
    /// Address of the next instruction.
    pub(crate) pc: u64,
    /// Vector registers that the kernel descriptor allocates.
    pub(crate) vgpr: Vec<Lanes>,
    /// Scalar registers by encoding number: s0 to s105, VCC, ttmp, null, m0, EXEC.
    pub(crate) sgpr: [u32; 128],
    /// Scalar condition code.
    pub(crate) scc: bool,
    /// MODE.
    pub(crate) mode: Mode,
    /// Running, waiting or ended.
    pub(crate) activity: Activity,
    /// The barrier was signalled and not yet waited for.
    pub(crate) signalled: bool,
    /// Phase of the barrier that was signalled.
    pub(crate) phase: u64,
    /// Instructions executed.
    pub(crate) count: u64,
    /// Address of the instruction that sent MSG_DEALLOC_VGPRS.
    pub(crate) released: Option<u64>,
    /// Traps and halts.
    pub(crate) exceptions: Exceptions,
    /// Scratch memory, lane after lane.
    pub(crate) scratch: Vec<u8>,
    /// Scratch bytes of one lane.
    pub(crate) scratch_lane: usize,
    /// Chip.
    pub(crate) target: Target,
    /// Outstanding operations and undefined values, where they are watched.
    pub(crate) tracker: Option<Box<Tracker>>,
    /// Distance added to transcendental results, in units of the last place.
    pub(crate) perturb: i32,
    /// The host's vector unit.
    pub(crate) simd: Simd,
}

impl Wave {
    /// A wave with `vgprs` vector registers and `scratch` bytes per lane, all zero.
    pub(crate) fn new(target: Target, vgprs: usize, scratch: usize) -> Self {
        Self {
            number: 0,
            pc: 0,
            vgpr: vec![[0; 32]; vgprs],
            sgpr: [0; 128],
            scc: false,
            mode: Mode(0xf0),
            activity: Activity::Runs,
            signalled: false,
            phase: 0,
            count: 0,
            released: None,
            exceptions: Exceptions::default(),
            scratch: vec![0; scratch.saturating_mul(32)],
            scratch_lane: scratch,
            target,
            tracker: None,
            perturb: 0,
            simd: Simd::Portable,
        }
    }

    /// Active lanes.
    #[inline]
    pub(crate) fn exec(&self) -> u32 {
        self.sgpr[EXEC]
    }

    /// True if the chip is RDNA4.
    pub(crate) fn is_gfx12(&self) -> bool {
        self.target.generation() == Generation::Gfx12
    }

    /// A scalar register.
    #[inline]
    pub(crate) fn scalar(&self, number: usize) -> u32 {
        if number == NULL { 0 } else { self.sgpr[number & 127] }
    }

    /// A pair of scalar registers.
    #[inline]
    pub(crate) fn scalar64(&self, number: usize) -> u64 {
        if number == NULL {
            return 0;
        }
        u64::from(self.scalar(number)) | u64::from(self.scalar(number + 1)) << 32
    }

    /// Writes a scalar register; writes to null are ignored.
    #[inline]
    pub(crate) fn set_scalar(&mut self, number: usize, value: u32) {
        if number != NULL {
            self.sgpr[number & 127] = value;
        }
    }

    /// Writes a pair of scalar registers.
    #[inline]
    pub(crate) fn set_scalar64(&mut self, number: usize, value: u64) {
        if number != NULL {
            self.set_scalar(number, value as u32);
            self.set_scalar(number + 1, (value >> 32) as u32);
        }
    }

    /// Writes the lanes of `mask` of a vector register.
    #[inline(always)]
    pub(crate) fn store(&mut self, register: usize, value: &Lanes, mask: u32) {
        let out = &mut self.vgpr[register];
        if mask == u32::MAX {
            *out = *value;
            return;
        }
        let mut lane = 0;
        while lane < 32 {
            out[lane] = if mask >> lane & 1 != 0 { value[lane] } else { out[lane] };
            lane += 1;
        }
    }
}
