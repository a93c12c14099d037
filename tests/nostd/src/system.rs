//! The parts that an operating system's libraries provide elsewhere: start, output, exit, and the four memory functions
//! that compiled code calls. It makes only two system calls.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::fmt;

// The stack pointer must be a multiple of 16 at the call.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {start}", "ud2", start = sym start);

extern "C" fn start() -> ! {
    exit(crate::run())
}

const WRITE: usize = 1;
const EXIT: usize = 60;

/// A Linux system call of up to three arguments.
fn call(number: usize, arguments: [usize; 3]) -> isize {
    let result: isize;
    // SAFETY: both calls that are made, `write` and `exit`, read at most the bytes given and change no memory.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Ends the program.
pub(crate) fn exit(code: u8) -> ! {
    loop {
        call(EXIT, [code.into(), 0, 0]);
    }
}

/// Standard output.
pub(crate) struct Output;

impl Output {
    /// Writes all the bytes to a file descriptor, as far as it takes them.
    pub(crate) fn write(file: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = usize::try_from(call(WRITE, [file, bytes.as_ptr() as usize, bytes.len()]));
            match count {
                Ok(count) if count > 0 => bytes = bytes.get(count..).unwrap_or_default(),
                _ => return,
            }
        }
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Self::write(1, text.as_bytes());
        Ok(())
    }
}

/// Prints a line.
macro_rules! line {
    ($($part:tt)*) => {{
        use core::fmt::Write as _;
        let _ = writeln!(crate::system::Output, $($part)*);
    }};
}
pub(crate) use line;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    line!("panic {info}");
    exit(101)
}

/// The global heap, which refuses every allocation; only heaps that are passed as arguments work.
struct Nothing;

// SAFETY: nothing is ever given out, so nothing can be misused.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static NOTHING: Nothing = Nothing;

/// C's `memcpy`.
///
/// # Safety
/// As in C: `count` bytes can be read and written, and the ranges do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep movsb", inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack));
    }
    to
}

/// C's `memmove`.
///
/// # Safety
/// As in C: `count` bytes can be read and written.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= count {
        // SAFETY: copying upwards reads every byte before it is written.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller's promise; copying downwards reads every byte before it is written. The flag is set back.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "cld",
            inout("rcx") count => _,
            inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _,
            options(nostack),
        );
    }
    to
}

/// C's `memset`.
///
/// # Safety
/// As in C: `count` bytes can be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
    unsafe {
        asm!("rep stosb", inout("rcx") count => _, inout("rdi") to => _, in("al") byte as u8, options(nostack));
    }
    to
}

/// C's `memcmp`.
///
/// # Safety
/// As in C: `count` bytes can be read on either side.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: the caller's promise. Volatile, so that the loop is not taken for a call of `memcmp`.
        let (a, b) = unsafe { (left.add(index).read_volatile(), right.add(index).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// [`memcmp`], of which only zero or not matters.
///
/// # Safety
/// As [`memcmp`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(left, right, count) }
}
