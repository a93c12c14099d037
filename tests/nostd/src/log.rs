//! Writes defmt's frames to standard error unchanged. `decode` turns them into text.

use crate::system::Output;
use defmt::Encoder;
use spin::Mutex;

#[defmt::global_logger]
struct Log;

/// The encoder of the frame that is being written. There is one thread, so it is never contended.
static ENCODER: Mutex<Encoder> = Mutex::new(Encoder::new());

fn write(bytes: &[u8]) {
    Output::write(2, bytes);
}

// SAFETY: there is one thread and no interrupt, so a frame is finished before the next one starts.
unsafe impl defmt::Logger for Log {
    fn acquire() {
        ENCODER.lock().start_frame(write);
    }

    unsafe fn flush() {}

    unsafe fn release() {
        ENCODER.lock().end_frame(write);
    }

    unsafe fn write(bytes: &[u8]) {
        ENCODER.lock().write(bytes, write);
    }
}
