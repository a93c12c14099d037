//! Recurrent states on the device: their memory, and copies of them.

use alloc::vec::Vec;
use doorbell_core::plan::StateId;
use doorbell_kernels::copy_words;

use super::GpuBackend;
use crate::error::GpuError;
use crate::memory_needs::state_bytes;
use crate::record::StepRecorder;
use crate::settings::PACKETS;

impl GpuBackend<'_, '_, '_> {
    /// Bytes of a state in the layers that the device keeps.
    fn device_state(&self) -> u64 {
        state_bytes(&self.kept, self.kept.state.map_or(0, |state| state.layers), 1)
    }

    /// Takes the memory of `count` states on both sides. A sequence that begins does not look at what they hold.
    pub(super) fn take_states(&mut self, count: u32) -> Result<(), GpuError> {
        self.settle()?;
        self.states = 0;
        if let Some(fallback) = &mut self.fallback {
            fallback.reserve_states(count)?;
        }
        let bytes = self.device_state().saturating_mul(count.into());
        let device = self.device.as_mut().ok_or(GpuError::Lost(None))?;
        if self.store.reserve_states(device, bytes)? {
            self.recordings.clear(device);
        }
        self.states = count;
        Ok(())
    }

    /// Copies the part of a state that the device keeps; both exist.
    pub(super) fn copy_on_device(&mut self, from: StateId, to: StateId) -> Result<(), GpuError> {
        let bytes = self.device_state();
        let Some(base) = self.store.states.as_ref().map(|states| states.va()).filter(|_| bytes > 0) else {
            return Ok(());
        };
        self.settle()?;
        // A launch counts words in 32 bits.
        const PIECE: u64 = 1 << 30;
        let [from, to] = [from, to].map(|state| base + u64::from(state.0) * bytes);
        let pieces = (0..bytes).step_by(PIECE as usize);
        let launches: Vec<_> =
            pieces.map(|at| copy_words(from + at, to + at, (PIECE.min(bytes - at) / 4) as u32)).collect();
        let Self { device, programs, disabled, target, .. } = &mut *self;
        let device = device.as_mut().ok_or(GpuError::Lost(None))?;
        let (target, packets) = (*target, PACKETS as usize);
        let mut recorder =
            StepRecorder { device, programs, disabled, target, of_host: None, packets, lists: None };
        let recording = recorder.record_launches(alloc::vec![Some(launches)])?;
        let ran = self.run_recording(&recording);
        if let Some(device) = &mut self.device {
            recording.free(device);
        }
        ran
    }
}
