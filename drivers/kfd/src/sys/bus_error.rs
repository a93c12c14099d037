//! Survives the bus error that an access raises after the kernel has taken a device's page away: doorbells and
//! registers at a reset or when the device is unplugged, buffers when they cannot be brought back. The page is replaced
//! by ordinary memory and the loss is remembered.
//!
//! Source: `amdkfd/kfd_doorbell.c` and `amdgpu_device.c:amdgpu_device_unmap_mmio` (pages are zapped, later accesses are
//! `SIGBUS`); the layout of the action is that of `arch/x86/include/uapi/asm/signal.h`. Only on x86-64; elsewhere
//! nothing is guarded. Bus errors at other addresses go to the handler that was installed before.

use super::window::{PAGE, Span, Window};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Windows that can be guarded at a time: doorbells and a flush page for each of 32 devices.
const SLOTS: usize = 64;

struct Slot {
    /// 0 = free.
    start: AtomicUsize,
    len: AtomicUsize,
    /// Many windows lie in the range: only the page of the access is replaced.
    by_page: AtomicBool,
    is_gone: AtomicBool,
    /// Address of the first access that found nothing.
    at: AtomicUsize,
}

static GUARDED: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        by_page: AtomicBool::new(false),
        is_gone: AtomicBool::new(false),
        at: AtomicUsize::new(0),
    }
}; SLOTS];

/// A guarded window. To be dropped before the window is.
#[derive(Debug)]
pub struct BusGuard {
    slot: usize,
}

impl BusGuard {
    /// Guards a window; `None` when too many are, or the handler cannot be installed.
    pub fn new(window: &Window) -> Option<Self> {
        Self::range(window.address(), window.len(), false)
    }

    /// Guards every window in a reservation, page by page.
    pub fn span(span: &Span) -> Option<Self> {
        Self::range(span.address(), span.len(), true)
    }

    fn range(address: u64, len: usize, by_page: bool) -> Option<Self> {
        if !install() {
            return None;
        }
        let start = usize::try_from(address).ok()?;
        let slot = GUARDED.iter().position(|slot| {
            // The length is of no use to the handler before the start is that of this range.
            let claimed = slot.len.compare_exchange(0, len, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if claimed {
                slot.is_gone.store(false, Ordering::Relaxed);
                slot.by_page.store(by_page, Ordering::Relaxed);
                slot.start.store(start, Ordering::Release);
            }
            claimed
        })?;
        Some(Self { slot })
    }

    /// True if an access has found the window gone.
    #[inline]
    pub fn is_gone(&self) -> bool {
        GUARDED[self.slot].is_gone.load(Ordering::Relaxed)
    }

    /// The first access that has found its page gone.
    #[inline]
    pub fn gone_at(&self) -> Option<u64> {
        self.is_gone().then(|| GUARDED[self.slot].at.load(Ordering::Relaxed) as u64)
    }
}

impl Drop for BusGuard {
    fn drop(&mut self) {
        let slot = &GUARDED[self.slot];
        slot.start.store(0, Ordering::Release);
        slot.len.store(0, Ordering::Release);
    }
}

/// Replaces the guarded window or page around an address by zeroed memory of this process. Whether there is one.
fn replace(address: usize) -> bool {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    for slot in &GUARDED {
        let (start, len) = (slot.start.load(Ordering::Acquire), slot.len.load(Ordering::Acquire));
        if start == 0 || !(start..start.saturating_add(len)).contains(&address) {
            continue;
        }
        let by_page = slot.by_page.load(Ordering::Relaxed);
        let (start, len) = if by_page { (address & !(PAGE - 1), PAGE) } else { (start, len) };
        let at = core::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is a window's or a page in a reservation of windows, whose owner keeps it mapped while it
        // is guarded and touches it by atomics only; one plain system call, which a signal handler may make.
        let replaced = unsafe {
            mmap_anonymous(at, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED)
        };
        if replaced.is_ok() && !slot.is_gone.load(Ordering::Relaxed) {
            slot.at.store(address, Ordering::Relaxed);
            slot.is_gone.store(true, Ordering::Relaxed);
        }
        return replaced.is_ok();
    }
    false
}

#[cfg(target_arch = "x86_64")]
use handler::install;

#[cfg(not(target_arch = "x86_64"))]
fn install() -> bool {
    let _ = replace;
    false
}

#[cfg(target_arch = "x86_64")]
mod handler {
    use super::replace;
    use core::arch::{asm, naked_asm};
    use core::ffi::{c_int, c_void};
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    const SIGBUS: c_int = 7;
    const RT_SIGACTION: usize = 13;

    /// A signal action as the kernel takes it: handler, flags, restorer, mask.
    type Action = [u64; 4];

    /// The action of before.
    static PREVIOUS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

    /// 0 not installed, 1 being installed, 2 installed, 3 refused.
    static STATE: AtomicU8 = AtomicU8::new(0);

    /// `si_addr` of the signal's information.
    const ADDRESS: usize = 16;

    /// Installs the handler once for the whole process. Whether it is.
    pub(super) fn install() -> bool {
        const SIGINFO: u64 = 4;
        const RESTORER: u64 = 0x0400_0000;
        const ON_STACK: u64 = 0x0800_0000;
        if STATE.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            let mut previous = [0; 4];
            // The action of before is known before ours can be called.
            let mut is_done = change(None, &mut previous);
            PREVIOUS.iter().zip(previous).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            let handler: extern "C" fn(c_int, *const u8, *mut c_void) = on_bus_error;
            let restorer: unsafe extern "C" fn() -> ! = restore;
            let ours = [handler as usize as u64, SIGINFO | RESTORER | ON_STACK, restorer as usize as u64, 0];
            is_done = is_done && change(Some(&ours), &mut previous);
            STATE.store(if is_done { 2 } else { 3 }, Ordering::Release);
        }
        while STATE.load(Ordering::Acquire) == 1 {
            core::hint::spin_loop();
        }
        STATE.load(Ordering::Acquire) == 2
    }

    fn change(new: Option<&Action>, old: &mut Action) -> bool {
        const MASK_BYTES: usize = 8;
        let new = new.map_or(core::ptr::null(), |action| action.as_ptr());
        let result: isize;
        // SAFETY: RT_SIGACTION reads 32 bytes at `new` if it is not null and writes 32 at `old`, both live; the handler
        // that is installed does nothing but what a handler may.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") RT_SIGACTION => result,
                in("rdi") SIGBUS,
                in("rsi") new,
                in("rdx") old.as_mut_ptr(),
                in("r10") MASK_BYTES,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        result == 0
    }

    /// Returns from the handler.
    #[unsafe(naked)]
    unsafe extern "C" fn restore() -> ! {
        // RT_SIGRETURN, with the stack as the kernel left it for the handler.
        naked_asm!("mov eax, 15", "syscall")
    }

    extern "C" fn on_bus_error(_: c_int, info: *const u8, _: *mut c_void) {
        // SAFETY: the kernel passes the information of the signal, which has an address for SIGBUS.
        let address = unsafe { info.byte_add(ADDRESS).cast::<usize>().read() };
        if !replace(address) {
            // The access is repeated when the handler returns and then meets the action of before.
            let previous = PREVIOUS.each_ref().map(|word| word.load(Ordering::Relaxed));
            let _ = change(Some(&previous), &mut [0; 4]);
        }
    }
}
