//! The GPU's address space: named regions of memory that host and GPU share.
//!
//! Regions are real mappings, so a host thread may change them at any time; every access is atomic by word. Not here:
//! caches and stale lines (`processor/ordering.rs`), page tables of the kernel (`kernel`).

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicU32;

use doorbell_kfd::sys::{Errno, MapAddress, Shared, Span, Window};

use super::shadow::Shadow;

/// Bytes left unmapped around an allocation.
const GUARD: usize = 4096;

/// Direction of an access.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store or atomic.
    Write,
    /// Instruction fetch.
    Execute,
}

/// An access that the address space refuses.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryFault {
    /// First byte of the access.
    pub address: u64,
    /// Bytes.
    pub len: usize,
    /// Direction.
    pub access: Access,
    /// Nearest region, with the distance from its start (negative: in front of it).
    pub nearest: Option<(String, i128)>,
    /// A region is mapped there but forbids the access.
    pub forbidden: bool,
}

impl fmt::Display for MemoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.access {
            Access::Read => "read of",
            Access::Write => "write to",
            Access::Execute => "execution at",
        };
        let state = if self.forbidden { "forbidden" } else { "unmapped" };
        write!(f, "{verb} {} bytes at {state} address {:#x}", self.len, self.address)?;
        match &self.nearest {
            Some((name, offset)) => write!(f, "; nearest allocation is {name}, offset {offset}"),
            None => f.write_str("; nothing is mapped"),
        }
    }
}

impl core::error::Error for MemoryFault {}

/// One mapped range.
#[derive(Debug)]
pub struct Region {
    /// First GPU address.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Name in reports.
    pub name: String,
    /// The memory itself.
    pub window: Arc<Window>,
    /// Stores allowed.
    pub writable: bool,
    /// Instruction fetch allowed.
    pub executable: bool,
    /// Bytes without a value, where that is tracked.
    defined: Option<Shadow>,
}

impl Region {
    /// A region over a mapping, readable, writable and executable, all bytes with a value.
    pub fn new(base: u64, len: u64, name: &str, window: Arc<Window>) -> Self {
        Self { base, len, name: name.into(), window, writable: true, executable: true, defined: None }
    }

    /// Marks every byte as never written.
    pub fn undefined(mut self) -> Self {
        self.defined = usize::try_from(self.len).ok().map(Shadow::undefined);
        self
    }

    fn holds(&self, address: u64, len: u64) -> bool {
        address >= self.base && len <= self.len && address - self.base <= self.len - len
    }
}

/// All regions of one process on one GPU.
#[derive(Debug, Default)]
pub struct Space {
    /// Sorted by base; never overlapping.
    regions: Vec<Region>,
    /// Region of the last access.
    last: usize,
    /// Stores that changed something: evidence of progress.
    pub(crate) changes: u64,
}

impl Space {
    /// Nothing mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region; false if it overlaps another or the window is too short.
    pub fn add(&mut self, region: Region) -> bool {
        let at = self.regions.partition_point(|other| other.base < region.base);
        let end = region.base.checked_add(region.len);
        let fits = end.is_some_and(|end| self.regions.get(at).is_none_or(|next| end <= next.base))
            && at.checked_sub(1).is_none_or(|at| {
                let before = &self.regions[at];
                before.base + before.len <= region.base
            })
            && region.len <= region.window.len() as u64;
        if fits {
            self.regions.insert(at, region);
        }
        fits
    }

    /// New zeroed memory of `len` bytes under `name`, at the address where the host sees it too.
    ///
    /// # Errors
    ///
    /// The host's kernel refuses the mapping.
    pub fn allocate(&mut self, name: &str, len: usize) -> Result<Arc<Window>, Errno> {
        let window = guarded(len)?;
        self.add(Region::new(window.address(), len as u64, name, window.clone()));
        Ok(window)
    }

    /// The same, with every byte marked as never written.
    ///
    /// # Errors
    ///
    /// The host's kernel refuses the mapping.
    pub fn allocate_undefined(&mut self, name: &str, len: usize) -> Result<Arc<Window>, Errno> {
        let window = guarded(len)?;
        self.add(Region::new(window.address(), len as u64, name, window.clone()).undefined());
        Ok(window)
    }

    /// Removes the region that starts at `base`.
    pub fn remove(&mut self, base: u64) -> Option<Region> {
        let at = self.regions.iter().position(|region| region.base == base)?;
        Some(self.regions.remove(at))
    }

    /// The same memory for another thread, without names; `None` if stores are tracked by byte.
    pub(crate) fn view(&self) -> Option<Self> {
        if self.is_tracked() {
            return None;
        }
        let regions = self.regions.iter().map(|region| Region {
            base: region.base,
            len: region.len,
            name: String::new(),
            window: region.window.clone(),
            writable: region.writable,
            executable: region.executable,
            defined: None,
        });
        Some(Self { regions: regions.collect(), last: 0, changes: 0 })
    }

    /// All regions in the order of their addresses.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    #[inline]
    fn locate(&mut self, address: u64, len: usize, access: Access) -> Result<usize, MemoryFault> {
        let wide = len as u64;
        if !self.regions.get(self.last).is_some_and(|region| region.holds(address, wide)) {
            let after = self.regions.partition_point(|region| region.base <= address);
            self.last = after.saturating_sub(1);
        }
        let allowed = self.regions.get(self.last).is_some_and(|region| {
            region.holds(address, wide)
                && match access {
                    Access::Read => true,
                    Access::Write => region.writable,
                    Access::Execute => region.executable,
                }
        });
        if allowed { Ok(self.last) } else { Err(self.fault(address, len, access)) }
    }

    #[cold]
    fn fault(&self, address: u64, len: usize, access: Access) -> MemoryFault {
        let distance = |region: &Region| {
            let (address, base) = (i128::from(address), i128::from(region.base));
            let end = base + i128::from(region.len);
            if address < base { base - address } else { (address - end + 1).max(0) }
        };
        let nearest = self.regions.iter().min_by_key(|region| distance(region));
        MemoryFault {
            address,
            len,
            access,
            forbidden: nearest.is_some_and(|region| region.holds(address, len as u64)),
            nearest: nearest
                .map(|region| (region.name.clone(), i128::from(address) - i128::from(region.base))),
        }
    }

    /// Checks that an access is possible.
    ///
    /// # Errors
    ///
    /// The fault that the access would raise.
    #[inline]
    pub fn check(&mut self, address: u64, len: usize, access: Access) -> Result<(), MemoryFault> {
        self.locate(address, len, access).map(drop)
    }

    /// Aligned words of one region that an access may touch; `None` if it is not possible, not aligned, or has to be
    /// tracked by byte.
    #[inline]
    pub(crate) fn words(&mut self, address: u64, count: usize, access: Access) -> Option<&[AtomicU32]> {
        let at = self.locate(address, count * 4, access).ok()?;
        let region = &self.regions[at];
        let start = offset(region, address);
        let tracked = access == Access::Write && region.defined.is_some();
        (start.is_multiple_of(4) && !tracked).then(|| region.window.words32(start, count))
    }

    /// Copies bytes out.
    ///
    /// # Errors
    ///
    /// If any byte is not readable.
    pub fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let at = self.locate(address, out.len(), Access::Read)?;
        let region = &self.regions[at];
        region.window.read(offset(region, address), out);
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    ///
    /// If any byte is not writable.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let at = self.locate(address, bytes.len(), Access::Write)?;
        let region = &mut self.regions[at];
        let start = offset(region, address);
        region.window.write(start, bytes);
        if let Some(shadow) = &mut region.defined {
            shadow.set(start, bytes.len(), true);
        }
        self.changes = self.changes.wrapping_add(1);
        Ok(())
    }

    /// Loads a dword at any address.
    ///
    /// # Errors
    ///
    /// If it is not readable.
    #[inline]
    pub fn load32(&mut self, address: u64) -> Result<u32, MemoryFault> {
        let at = self.locate(address, 4, Access::Read)?;
        let region = &self.regions[at];
        let start = offset(region, address);
        if start.is_multiple_of(4) {
            return Ok(region.window.load32(start));
        }
        let mut bytes = [0; 4];
        region.window.read(start, &mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    /// Loads a quadword at any address.
    ///
    /// # Errors
    ///
    /// If it is not readable.
    pub fn load64(&mut self, address: u64) -> Result<u64, MemoryFault> {
        let at = self.locate(address, 8, Access::Read)?;
        let region = &self.regions[at];
        let start = offset(region, address);
        if start.is_multiple_of(8) {
            return Ok(region.window.load64(start));
        }
        let mut bytes = [0; 8];
        region.window.read(start, &mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores a dword at any address.
    ///
    /// # Errors
    ///
    /// If it is not writable.
    #[inline]
    pub fn store32(&mut self, address: u64, value: u32) -> Result<(), MemoryFault> {
        let at = self.locate(address, 4, Access::Write)?;
        let region = &mut self.regions[at];
        let start = offset(region, address);
        if !start.is_multiple_of(4) || region.defined.is_some() {
            return self.write(address, &value.to_le_bytes());
        }
        if region.window.load32(start) != value {
            region.window.store32(start, value);
            self.changes = self.changes.wrapping_add(1);
        }
        Ok(())
    }

    /// Stores a quadword at any address.
    ///
    /// # Errors
    ///
    /// If it is not writable.
    pub fn store64(&mut self, address: u64, value: u64) -> Result<(), MemoryFault> {
        let at = self.locate(address, 8, Access::Write)?;
        let region = &mut self.regions[at];
        let start = offset(region, address);
        if !start.is_multiple_of(8) || region.defined.is_some() {
            return self.write(address, &value.to_le_bytes());
        }
        region.window.store64(start, value);
        self.changes = self.changes.wrapping_add(1);
        Ok(())
    }

    /// Subtracts from an aligned quadword, atomically for the host too; returns the old value.
    ///
    /// # Errors
    ///
    /// If it is not writable or not aligned.
    pub fn subtract64(&mut self, address: u64, amount: u64) -> Result<u64, MemoryFault> {
        let at = self.locate(address, 8, Access::Write)?;
        let start = offset(&self.regions[at], address);
        if !start.is_multiple_of(8) {
            return Err(self.fault(address, 8, Access::Write));
        }
        self.changes = self.changes.wrapping_add(1);
        Ok(self.regions[at].window.fetch_sub64(start, amount))
    }

    /// True if anything is tracked by byte.
    pub(crate) fn is_tracked(&self) -> bool {
        self.regions.iter().any(|region| region.defined.is_some())
    }

    /// True if bytes have a value, or that is not tracked.
    pub(crate) fn is_defined(&mut self, address: u64, len: usize) -> bool {
        let Ok(at) = self.locate(address, len, Access::Read) else { return true };
        let region = &self.regions[at];
        region.defined.as_ref().is_none_or(|shadow| shadow.all(offset(region, address), len))
    }

    /// Marks bytes as undefined after a store of an undefined register.
    pub(crate) fn undefine(&mut self, address: u64, len: usize) {
        if let Ok(at) = self.locate(address, len, Access::Read) {
            let region = &mut self.regions[at];
            let start = offset(region, address);
            if let Some(shadow) = &mut region.defined {
                shadow.set(start, len, false);
            }
        }
    }
}

/// Zeroed memory with an unmapped page on either side.
fn guarded(len: usize) -> Result<Arc<Window>, Errno> {
    let size = len.max(1).checked_next_multiple_of(GUARD).ok_or(Errno::ENOMEM)?;
    let span = Span::reserve(size.checked_add(2 * GUARD).ok_or(Errno::ENOMEM)?, GUARD)?;
    Ok(Arc::new(Shared::new(size)?.map(0, size, MapAddress::At(&span, GUARD))?))
}

#[inline]
fn offset(region: &Region, address: u64) -> usize {
    (address - region.base) as usize
}
