//! Printed sizes in bytes.

use core::fmt;

/// Bytes, printed in MiB below 1 GiB and in GiB from there on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1_048_576.0;
        let mib = self.0 as f64 / MIB;
        let text = if mib < 1024.0 { format!("{mib:.0} MiB") } else { format!("{:.1} GiB", mib / 1024.0) };
        f.pad(&text)
    }
}
