//! The second-level trap handler of a device: code that the caller brings, and the records that it leaves of the waves
//! it has stopped. What else the code does is not known here.
//!
//! Source: `amdkfd/kfd_chardev.c:kfd_ioctl_set_trap_handler`; `kfd_debug.h:kfd_dbg_has_cwsr_workaround` for the chips
//! whose waves start without one. Without a handler the kernel's own halts a wave at an illegal instruction or a
//! violation and reports nothing.

use super::connection::Process;
use super::device::TrapHandler;
use super::device_index::DeviceIndex;
use super::trap_record::TrapRecord;
use crate::memory::{AllocError, Bytes, Name, UploadError, Uploader, Usage};
use crate::sys::{Errno, SetTrapHandler, call};
use core::fmt;
use embedded_hal::delay::DelayNs;

/// Records of a device: one for each number that a wave has on its SIMD unit.
const RECORDS: usize = 32;

/// Words of a record: program counter, its high half with the trap's number, exception flags, message.
const RECORD_BYTES: usize = 16;

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

impl Process<'_> {
    /// True if waves on a device enter a handler and the kernel reports it to this process. Chips from gfx1100 to
    /// gfx1103 start waves without one; interfaces before 1.14 report nothing.
    fn can_trap(&self, device: DeviceIndex) -> bool {
        self.version().has_event_age() && self.device(device).node().isa().enters_trap_handler()
    }

    /// Installs a second-level handler, before the first compute queue; returns false if the device has no use for it.
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

    /// The handler's records of the queue with this doorbell: the first one, and their number.
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
