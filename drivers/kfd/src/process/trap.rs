//! The second-level trap handler of a device: code that the caller brings, and the records that it leaves of the waves
//! it has stopped. What else the code does is not known here.
//!
//! Source: `amdkfd/kfd_chardev.c:kfd_ioctl_set_trap_handler`; `kfd_debug.h:kfd_dbg_has_cwsr_workaround` for the chips
//! whose waves start without one. Without a handler the kernel's own halts a wave at an illegal instruction or a
//! violation and tells nobody.

use super::bring_up::Process;
use super::device::DeviceIndex;
use crate::memory::{AllocError, Buffer, Bytes, Name, UploadError, Uploader, Usage};
use crate::sys::{Errno, SetTrapHandler, call};
use crate::topology::Generation;
use core::fmt;
use embedded_hal::delay::DelayNs;

/// Records of a device: one for each number that a wave has on its SIMD unit.
const RECORDS: usize = 32;

/// Words of a record: program counter, its high half with the trap's number, exception flags, message.
const RECORD_BYTES: usize = 16;

/// Bits of the message that name the doorbell; those above are exceptions, 1 << (code − 1).
const DOORBELL_BITS: u32 = 10;

/// Why no handler was installed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrapError {
    /// There is a handler already, or the code is empty.
    Code,
    /// No memory for code or records.
    Alloc(AllocError),
    /// The code did not get there.
    Upload(UploadError),
    /// SET_TRAP_HANDLER was refused.
    Refused(Errno),
}

impl From<AllocError> for TrapError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl fmt::Display for TrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code => f.write_str("trap handler: one is installed already, or there is no code"),
            Self::Alloc(error) => write!(f, "trap handler: {error}"),
            Self::Upload(error) => write!(f, "trap handler: {error}"),
            Self::Refused(errno) => write!(f, "SET_TRAP_HANDLER: {errno}"),
        }
    }
}

impl core::error::Error for TrapError {}

/// A handler in device memory.
#[derive(Debug)]
pub(crate) struct TrapHandler {
    code: Buffer,
    records: Buffer,
}

/// A wave that the handler has stopped.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapRecord {
    /// Address of the instruction.
    pub pc: u64,
    /// The number of `s_trap`; 0 for an exception.
    pub trap: u8,
    /// The hardware's exception flags: TRAPSTS, on gfx12 EXCP_FLAG_PRIV.
    pub flags: u32,
    /// What happened, by the kernel's numbers: 1 << (code − 1).
    pub exceptions: u64,
    /// The queue: its doorbell's place in the process's slice.
    pub doorbell: u32,
}

impl TrapRecord {
    /// Reads four words; `None` where no wave has written.
    pub fn read(words: [u32; 4], generation: Generation) -> Option<Self> {
        let [low, high, flags, message] = words;
        let exceptions = u64::from(message >> DOORBELL_BITS);
        let trap = if generation == Generation::Gfx12 { high >> 28 } else { high >> 16 & 0xff };
        let pc = u64::from(low) | u64::from(high & 0xffff) << 32;
        let doorbell = message & ((1 << DOORBELL_BITS) - 1);
        (exceptions != 0).then_some(Self { pc, trap: trap as u8, flags, exceptions, doorbell })
    }
}

impl Process<'_> {
    /// Whether waves on a device enter a handler and the kernel tells this process of it. Chips from gfx1100 to gfx1103
    /// start waves without one; interfaces before 1.14 tell nobody.
    fn can_trap(&self, device: DeviceIndex) -> bool {
        self.version().has_event_age() && self.device(device).node().isa().enters_trap_handler()
    }

    /// Installs a second-level handler, before the first compute queue; answers whether the device has a use for it.
    /// It is taken away with the process.
    pub fn set_trap_handler(
        &mut self,
        uploader: &mut Uploader,
        device: DeviceIndex,
        code: &[u8],
        delay: &mut dyn DelayNs,
    ) -> Result<bool, TrapError> {
        if !self.can_trap(device) {
            return Ok(false);
        }
        let bytes = code.len() as u64;
        if self.device(device).trap.is_some() || bytes == 0 {
            return Err(TrapError::Code);
        }
        let buffer = self.allocate(device, Usage::Code, bytes, Name::new("trap handler"))?;
        let records = match self.allocate(device, Usage::Signals, 4096, Name::new("trap records")) {
            Ok(records) => records,
            Err(error) => {
                let _ = self.free(buffer);
                return Err(error.into());
            }
        };
        let upload = uploader.upload(self, &buffer, 0, &mut Bytes(code), bytes, delay);
        let set = upload
            .map_err(TrapError::Upload)
            .and_then(|()| self.point_trap(device, buffer.va(), records.va()).map_err(TrapError::Refused));
        if let Err(error) = set {
            let _ = self.free(buffer);
            let _ = self.free(records);
            return Err(error);
        }
        self.devices[usize::from(device.0)].trap = Some(TrapHandler { code: buffer, records });
        Ok(true)
    }

    fn point_trap(&self, device: DeviceIndex, tba_addr: u64, tma_addr: u64) -> Result<(), Errno> {
        let gpu_id = self.device(device).gpu_id();
        call(self.kernel, self.kfd.fd(), &mut SetTrapHandler { tba_addr, tma_addr, gpu_id, pad: 0 })
    }

    /// Takes the handler away; no queue may be left.
    pub(crate) fn drop_trap_handler(&mut self, device: DeviceIndex) {
        if let Some(TrapHandler { code, records }) = self.devices[usize::from(device.0)].trap.take() {
            // What is refused here goes with the process.
            let _ = self.point_trap(device, 0, 0);
            let _ = self.free(code);
            let _ = self.free(records);
        }
    }

    /// What the handler has recorded of the queue with this doorbell: the first record, and how many there are.
    pub(crate) fn trapped(&self, device: DeviceIndex, doorbell: u32) -> Option<(TrapRecord, u32)> {
        let this = self.device(device);
        let (window, generation) = (this.trap.as_ref()?.records.host(), this.node().isa().generation());
        let words = |slot: usize| [0, 4, 8, 12].map(|at| window.load32(slot * RECORD_BYTES + at));
        let records = (0..RECORDS).filter_map(|slot| TrapRecord::read(words(slot), generation));
        let mut of_queue = records.filter(|record| record.doorbell == doorbell);
        let first = of_queue.next()?;
        Some((first, 1 + of_queue.count() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_generation() {
        let words = [0x1234_5678, 0x0003_7fff, 1 << 11, 1 << 13 | 5];
        let record = TrapRecord::read(words, Generation::Gfx11).expect("written");
        let expected =
            TrapRecord { pc: 0x7fff_1234_5678, trap: 3, flags: 1 << 11, exceptions: 1 << 3, doorbell: 5 };
        assert_eq!(record, expected);
        let words = [0, 0x2000_0001, 0, 1 << 10];
        let record = TrapRecord::read(words, Generation::Gfx12).expect("written");
        assert_eq!((record.pc, record.trap, record.exceptions, record.doorbell), (1 << 32, 2, 1, 0));
        assert_eq!(TrapRecord::read([0; 4], Generation::Gfx11), None);
        assert_eq!(TrapRecord::read([1, 1, 1, 1023], Generation::Gfx12), None, "no exception in the message");
    }
}
