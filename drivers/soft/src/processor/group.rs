//! A workgroup: its LDS, its barrier, its waves.
//!
//! Not here: the order in which groups run (`dispatch.rs`).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::fault::{Cause, Fault};
use super::lds_shadow::LdsShadow;
use super::wave::{Activity, Wave};

/// State that the waves of a group share.
pub(crate) struct GroupState {
    /// Number in the grid.
    pub(crate) number: u64,
    /// Number among all groups since caches were emptied, where global memory is watched.
    pub(crate) serial: u32,
    /// Coordinates in the grid.
    pub(crate) id: [u32; 3],
    /// Local data share.
    pub(crate) lds: Vec<u8>,
    /// Waves that arrived at the barrier since it last opened.
    pub(crate) arrived: u32,
    /// Number of times that the barrier has opened.
    pub(crate) phase: u64,
    /// Address of the barrier at which the first wave arrived in this phase.
    pub(crate) barrier_pc: u64,
    /// LDS accesses of this phase.
    pub(crate) shadow: Option<LdsShadow>,
    /// Name of the kernel in reports, if there are any.
    pub(crate) kernel: String,
}

impl GroupState {
    pub(crate) fn new(id: [u32; 3], lds: usize, strict: bool) -> Self {
        Self {
            number: 0,
            serial: 0,
            id,
            lds: vec![0; lds],
            arrived: 0,
            phase: 0,
            barrier_pc: 0,
            shadow: strict.then(|| LdsShadow::new(lds)),
            kernel: String::new(),
        }
    }
}

/// A resident workgroup.
pub(crate) struct Group {
    /// State that the waves share.
    pub(crate) state: GroupState,
    /// The waves.
    pub(crate) waves: Vec<Wave>,
}

impl Group {
    /// Opens the barrier when every wave that has not ended has arrived.
    pub(crate) fn open_barrier(&mut self) {
        let live = self.waves.iter().filter(|wave| wave.activity != Activity::Ended).count() as u32;
        if live == 0 || self.state.arrived < live {
            return;
        }
        self.state.arrived = 0;
        self.state.phase += 1;
        for wave in &mut self.waves {
            if wave.activity == Activity::AtBarrier {
                wave.activity = Activity::Runs;
                wave.signalled = false;
            }
        }
        if let Some(shadow) = &mut self.state.shadow {
            shadow.next_phase();
        }
    }

    /// Fault of a halted wave, once no other wave of the group runs any more.
    pub(crate) fn halted(&self) -> Option<Fault> {
        let runs = |wave: &Wave| wave.activity == Activity::Runs;
        let wave = self.waves.iter().find(|wave| wave.activity == Activity::Halted)?;
        let (pc, cause) = wave.exceptions.cause.clone().unwrap_or((wave.pc, Cause::Halted));
        let fault = Fault { pc, group: self.state.id, wave: wave.number, cause };
        (!self.waves.iter().any(runs)).then_some(fault)
    }

    /// True if all waves have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.waves.iter().all(|wave| wave.activity == Activity::Ended)
    }
}
