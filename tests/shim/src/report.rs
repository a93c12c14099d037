//! The report of the software GPU, appended to a file when the process ends.
//!
//! Not here: counts and findings (doorbell-soft), the end of the process (`soft_gpu.rs`).

use core::fmt::Write as _;
use doorbell_soft::kernel::{Gpu, SoftKernel};
use std::io::Write as _;
use std::path::Path;

/// Appends the report to a file.
pub(crate) fn append(path: &Path, kernel: &SoftKernel, gpus: &[Gpu]) {
    let text = text(kernel, gpus);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("doorbell-shim: {}: {error}", path.display());
    }
}

/// One line per GPU, finding and fault.
fn text(kernel: &SoftKernel, gpus: &[Gpu]) -> String {
    let mut text = String::new();
    for gpu in gpus {
        let Some(report) = kernel.report(gpu.id) else { continue };
        let faults = kernel.faults(gpu.id);
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
