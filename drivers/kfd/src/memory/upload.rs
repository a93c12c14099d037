//! Brings bytes into device memory: by reading a file straight into it, by stores through the BAR, or by SDMA from
//! two staging buffers of which one is read into while the other drains. File mappings are never handed to the GPU.
//!
//! Source: `amdgpu/amdgpu_amdkfd_gpuvm.c` (user pages are pinned writable and evict queues when they move);
//! HDP flush register of the MMIO page: `amdgpu/nbio_v*.c` remap.

use super::buffer::{AllocError, Buffer};
use super::name::Name;
use super::usage::Usage;
use crate::process::{DeviceIndex, Process};
use crate::queue::{CopyEngine, CopyError, CopyFence};
use crate::sys::{Errno, Fd, Kernel, Window, store_fence};
use crate::topology::GpuKind;
use core::fmt;
use core::ops::Range;
use embedded_hal::delay::DelayNs;

/// A source of bytes for an upload.
pub trait Source {
    /// Reads up to `range.len()` bytes at `position` of the source into `window[range]`; returns their number, 0 at
    /// the end.
    fn read(
        &mut self,
        kernel: &dyn Kernel,
        position: u64,
        window: &Window,
        range: Range<usize>,
    ) -> Result<usize, Errno>;
}

/// An open file, from an offset on.
#[derive(Debug)]
pub struct File<'f> {
    /// The file.
    pub fd: &'f Fd,
    /// The offset of position 0.
    pub offset: u64,
}

impl Source for File<'_> {
    fn read(
        &mut self,
        kernel: &dyn Kernel,
        position: u64,
        window: &Window,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let at = self.offset.checked_add(position).ok_or(Errno::EINVAL)?;
        kernel.read_at(self.fd, at, window, range)
    }
}

/// Bytes in host memory.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b>(pub &'b [u8]);

impl Source for Bytes<'_> {
    fn read(
        &mut self,
        _: &dyn Kernel,
        position: u64,
        window: &Window,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let start = usize::try_from(position).map_err(|_| Errno::EINVAL)?.min(self.0.len());
        let count = range.len().min(self.0.len() - start);
        window.write(range.start, &self.0[start..start + count]);
        Ok(count)
    }
}

/// Why bytes did not arrive.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UploadError {
    /// The target is smaller than offset and length (bytes of it).
    OutOfBounds(u64),
    /// The source failed.
    Read(Errno),
    /// The source ended after this many bytes.
    Short(u64),
    /// The copy engine failed.
    Copy(CopyError),
    /// Memory for staging or for the flush page could not be allocated.
    Alloc(AllocError),
    /// The CPU does not reach the target and there is no copy engine.
    Unreachable,
}

impl From<CopyError> for UploadError {
    fn from(error: CopyError) -> Self {
        Self::Copy(error)
    }
}

impl From<AllocError> for UploadError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl fmt::Display for UploadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds(bytes) => write!(f, "upload beyond the end of a buffer of {bytes} bytes"),
            Self::Read(errno) => write!(f, "reading the source: {errno}"),
            Self::Short(bytes) => write!(f, "the source ended after {bytes} bytes"),
            Self::Copy(error) => write!(f, "upload: {error}"),
            Self::Alloc(error) => write!(f, "upload: {error}"),
            Self::Unreachable => {
                f.write_str("the CPU does not reach this memory (small BAR) and no SDMA queue is free")
            }
        }
    }
}

impl core::error::Error for UploadError {}

/// Bytes of each staging buffer.
const STAGING_BYTES: u64 = 16 << 20;

/// Below this, stores through the BAR are quicker than a round trip through staging.
const SMALL: u64 = 256 << 10;

/// Time for one staging buffer to drain.
const DRAIN_MS: u32 = 10_000;

/// Uploads to one device.
#[derive(Debug)]
pub struct Uploader {
    device: DeviceIndex,
    /// On a card where an SDMA queue was free.
    staged: Option<(CopyEngine, Staging)>,
}

/// Two buffers, each with its copy under way.
type Staging = [(Buffer, Option<CopyFence>); 2];

impl Uploader {
    /// Prepares uploads. On an APU nothing is needed; on a card without a free SDMA queue the BAR serves.
    pub fn new(process: &mut Process<'_>, device: DeviceIndex) -> Result<Self, UploadError> {
        if process.device(device).kind() == GpuKind::Apu {
            return Ok(Self { device, staged: None });
        }
        let engine = match CopyEngine::create(process, device) {
            Ok(engine) => engine,
            Err(CopyError::NoneFree) => return Ok(Self { device, staged: None }),
            Err(error) => return Err(error.into()),
        };
        let first = process.allocate(device, Usage::Staging, STAGING_BYTES, Name::new("staging[0]"));
        let both = first.and_then(|first| {
            let second = process.allocate(device, Usage::Staging, STAGING_BYTES, Name::new("staging[1]"));
            match second {
                Ok(second) => Ok([(first, None), (second, None)]),
                Err(error) => {
                    let _ = process.free(first);
                    Err(error)
                }
            }
        });
        match both {
            Ok(both) => Ok(Self { device, staged: Some((engine, both)) }),
            Err(error) => {
                let _ = engine.destroy(process);
                Err(error.into())
            }
        }
    }

    /// True if SDMA is used.
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// Gives everything back.
    pub fn destroy(self, process: &mut Process<'_>) -> Result<(), Errno> {
        let Some((engine, buffers)) = self.staged else { return Ok(()) };
        engine.destroy(process)?;
        for (buffer, _) in buffers {
            process.free(buffer).map_err(|error| error.errno)?;
        }
        Ok(())
    }

    /// Copies `bytes` from the start of `source` to `target[offset..]`. When it returns, the bytes are there for
    /// every dispatch whose submission acquires from the system.
    pub fn upload(
        &mut self,
        process: &mut Process<'_>,
        target: &Buffer,
        offset: u64,
        source: &mut dyn Source,
        bytes: u64,
        delay: &mut dyn DelayNs,
    ) -> Result<(), UploadError> {
        if offset.checked_add(bytes).is_none_or(|end| end > target.bytes()) {
            return Err(UploadError::OutOfBounds(target.bytes()));
        }
        let is_card = process.device(self.device).kind() == GpuKind::Discrete;
        if let Some(window) = target.window()
            && (self.staged.is_none() || !is_card || bytes <= SMALL)
        {
            fill(process.kernel(), window, offset, source, 0, bytes)?;
            if is_card {
                flush(process, self.device)?;
            }
            // What was stored into a page that is gone is nowhere.
            let is_lost = process.has_lost_page(self.device);
            return if is_lost { Err(AllocError::Lost.into()) } else { Ok(()) };
        }
        let (engine, buffers) = self.staged.as_mut().ok_or(UploadError::Unreachable)?;
        stage(process, engine, buffers, source, target.va() + offset, bytes, delay)
    }
}

/// Fills `window[offset..offset + bytes]` from position `from` of the source.
fn fill(
    kernel: &dyn Kernel,
    window: &Window,
    offset: u64,
    source: &mut dyn Source,
    from: u64,
    bytes: u64,
) -> Result<(), UploadError> {
    let mut done = 0;
    while done < bytes {
        let short = || UploadError::Short(from + done);
        let start = usize::try_from(offset + done).map_err(|_| short())?;
        let end = usize::try_from(offset + bytes).map_err(|_| short())?;
        let count = source.read(kernel, from + done, window, start..end).map_err(UploadError::Read)?;
        if count == 0 {
            return Err(short());
        }
        done += count as u64;
    }
    Ok(())
}

/// Stores through the BAR wait in the host data path until its flush register is written.
fn flush(process: &mut Process<'_>, device: DeviceIndex) -> Result<(), UploadError> {
    const HDP_MEM_FLUSH: usize = 0;
    store_fence();
    let index = usize::from(device.0);
    if process.devices[index].mmio.is_none() {
        let page = process.allocate(device, Usage::Mmio, 4096, Name::new("HDP flush"))?;
        process.devices[index].mmio = Some(page);
    }
    if let Some(page) = &process.devices[index].mmio {
        page.host().store32(HDP_MEM_FLUSH, 1);
    }
    Ok(())
}

fn stage(
    process: &Process<'_>,
    engine: &mut CopyEngine,
    buffers: &mut Staging,
    source: &mut dyn Source,
    va: u64,
    bytes: u64,
    delay: &mut dyn DelayNs,
) -> Result<(), UploadError> {
    let (mut done, mut turn) = (0, 0);
    while done < bytes {
        let (buffer, under_way) = &mut buffers[turn];
        if let Some(ticket) = under_way.take() {
            engine.wait(ticket, DRAIN_MS, delay)?;
        }
        let count = (bytes - done).min(buffer.bytes());
        fill(process.kernel(), buffer.host(), 0, source, done, count)?;
        let ticket = loop {
            match engine.copy(process, va + done, buffer.va(), count)? {
                Some(ticket) => break ticket,
                // Two copies never fill the ring; a predecessor that failed may have.
                None => delay.delay_us(20),
            }
        };
        *under_way = Some(ticket);
        (done, turn) = (done + count, 1 - turn);
    }
    for (_, under_way) in buffers {
        if let Some(ticket) = under_way.take() {
            engine.wait(ticket, DRAIN_MS, delay)?;
        }
    }
    Ok(())
}
