//! What the GPU did, appended to a file when the process ends.
//!
//! Not here: what is counted and found (doorbell-soft).

use crate::card::{self, Card};
use crate::tree;
use core::fmt::Write as _;
use std::io::Write as _;

/// Arranges for the end of the process.
pub(crate) fn at_exit() {
    // SAFETY: `end` has the type that atexit calls and stays loaded, as preloaded libraries do.
    let _ = unsafe { libc::atexit(end) };
}

extern "C" fn end() {
    tree::remove();
    let Some(card) = card::used() else { return };
    let Some(path) = &card.settings.report else { return };
    let text = text(card);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("doorbell-shim: {}: {error}", path.display());
    }
}

/// One line per GPU, finding and fault.
fn text(card: &Card) -> String {
    let _turn = card.turn();
    let mut text = String::new();
    for gpu in &card.settings.machine.gpus {
        let Some(report) = card.kernel.report(gpu.id) else { continue };
        let faults = card.kernel.faults(gpu.id);
        let (groups, instructions) = (report.groups, report.instructions);
        let chip = gpu.chip.target.name();
        let (found, failed) = (report.findings.len(), faults.len());
        let _ = writeln!(
            text,
            "{chip} groups {groups} instructions {instructions} findings {found} faults {failed}"
        );
        for finding in &report.findings {
            let _ = writeln!(text, "finding {finding}");
        }
        for fault in &faults {
            let _ = writeln!(text, "fault {fault}");
        }
    }
    text
}
