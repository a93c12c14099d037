//! Functions for a host that shows this kernel to foreign programs: doorbells read from memory, memory that the
//! caller brings.
//!
//! Not here: the connection to those programs (the preload shim of the tests).

use alloc::string::String;
use alloc::vec::Vec;

use doorbell_kfd::sys::{Errno, MapAddress, Window};

use crate::command::Queue;

use super::soft::{DOORBELLS, SoftKernel, State};

/// Content of a doorbell before its first value.
const EMPTY: u64 = u64::MAX;

impl SoftKernel {
    /// From now on [`SoftKernel::watch`] reads doorbells from memory, and USERPTR allocations are accepted: the host
    /// has to put [`SoftKernel::backing`] where the caller's pages were.
    ///
    /// # Errors
    ///
    /// If the host's kernel does not map the doorbells.
    pub fn expose(&self) -> Result<(), Errno> {
        let window = self.doorbells.map(0, self.doorbells.len(), MapAddress::Anywhere)?;
        let mut state = self.state.lock();
        state.watched = Some(window);
        state.ranges.adopts = true;
        state.devices.iter_mut().for_each(|device| device.processor.splits_wave64 = true);
        Ok(())
    }

    /// Reads the doorbells once and runs every queue as far as it goes; returns true if anything happened.
    pub fn watch(&self) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let before = consumed(state);
        let mut rung = Vec::new();
        let Some(window) = &state.watched else { return false };
        for entry in state.queues.all.values_mut() {
            let Some(at) = self.slot(entry.gpu, entry.doorbell) else { continue };
            let value = window.load64(at);
            if value != EMPTY && entry.seen != Some(value) {
                entry.seen = Some(value);
                rung.push((entry.gpu, entry.doorbell, value));
            }
        }
        for (gpu, doorbell, value) in &rung {
            state.doorbell(*gpu, *doorbell, *value);
        }
        if rung.is_empty() && !state.injection.evicted {
            state.run();
        }
        !rung.is_empty() || consumed(state) != before
    }

    /// A second view of an allocation.
    ///
    /// # Errors
    ///
    /// If there is no such allocation or the host's kernel does not map it.
    pub fn backing(&self, handle: u64) -> Result<Window, Errno> {
        self.state.lock().ranges.by_handle(handle).ok_or(Errno::EINVAL)?.view()
    }

    /// Paths and texts of all files that describe the machine.
    pub fn described(&self) -> impl Iterator<Item = (&String, &String)> {
        self.files.iter()
    }

    /// All queues as they are now.
    pub fn queues(&self) -> Vec<Queue> {
        self.state.lock().queues.all.values().map(|entry| entry.queue.clone()).collect()
    }

    /// Offset of a doorbell in the memory of all doorbells.
    fn slot(&self, gpu: u32, doorbell: usize) -> Option<usize> {
        let index = self.machine.gpus.iter().position(|device| device.id == gpu)?;
        Some(index * DOORBELLS + doorbell)
    }

    /// Resets a doorbell to the content before its first value.
    pub(super) fn clear_doorbell(&self, state: &State, gpu: u32, offset: u64) {
        let at = self.slot(gpu, offset as usize & (DOORBELLS - 1));
        if let (Some(window), Some(at)) = (&state.watched, at) {
            window.store64(at, EMPTY);
        }
    }
}

/// Packets, dwords and bytes that all queues consumed.
fn consumed(state: &State) -> u64 {
    state.queues.all.values().fold(0, |sum, entry| sum.wrapping_add(entry.queue.read))
}
