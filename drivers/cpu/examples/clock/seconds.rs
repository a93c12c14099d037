//! Processor time for measurements: what a busy machine does not change.

/// Seconds by a clock of Linux.
#[expect(unsafe_code, reason = "one system call that std does not offer")]
pub(crate) fn seconds(clock: i32) -> f64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library's own function (std links it), with a struct of its layout on 64-bit Linux.
    unsafe { clock_gettime(clock, &raw mut time) };
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}
