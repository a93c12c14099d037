//! Cost of a dispatch that waits for the one before it, by chip and encoding, as others have measured it.
//!
//! For models and plans: nothing here was measured by this program. Tiny kernels in a chain; where figures differ, the
//! slower one, but the middle for AQL on gfx1100. Source: ROCm/legacy-rocm-build#6409, ROCm/rocm-systems#10834 (both
//! encodings), hipfire's PHASE2_RESULT (raw AQL on a 7900 XTX).

use super::Encoding;
use crate::topology::Isa;
use core::fmt;

/// Cost of a dependent dispatch beside its own work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchCost {
    /// Nanoseconds.
    pub nanoseconds: f64,
    /// Chip and encoding of the measurement. The encoding differs from the requested one if that was not measured.
    pub measured: (Isa, Encoding),
    /// How.
    pub source: &'static str,
}

impl fmt::Display for LaunchCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nanoseconds, measured: (isa, encoding), source } = self;
        write!(f, "{:.2} us, measured by others with {encoding} on {isa}: {source}", nanoseconds / 1e3)
    }
}

const fn row(isa: Isa, encoding: Encoding, nanoseconds: f64, source: &'static str) -> LaunchCost {
    LaunchCost { nanoseconds, measured: (isa, encoding), source }
}

/// By chip.
const MEASURED: [LaunchCost; 4] = [
    row(Isa::GFX1100, Encoding::Pm4, 880.0, "0.82 to 0.88 by Vulkan"),
    row(Isa::GFX1100, Encoding::Aql, 3500.0, "2.8 to 3.9 by HIP graphs, 4.0 by a raw queue"),
    row(Isa::GFX1151, Encoding::Aql, 1890.0, "1.75 to 1.89 by HIP"),
    row(Isa::GFX1201, Encoding::Aql, 2550.0, "2.15 to 2.55 by HIP"),
];

impl LaunchCost {
    /// The cost on a chip or its nearest relative. If PM4 lists were not measured, it is the cost of AQL packets.
    pub fn of(isa: Isa, encoding: Encoding) -> Self {
        let family = |isa: Isa| (isa.generation(), isa.minor());
        let same = MEASURED.iter().find(|row| row.measured.0 == isa);
        let near = || MEASURED.iter().find(|row| family(row.measured.0) == family(isa));
        let chip = same.or_else(near).unwrap_or(&MEASURED[0]).measured.0;
        let own = || MEASURED.iter().filter(|row| row.measured.0 == chip);
        let as_asked = own().find(|row| row.measured.1 == encoding);
        *as_asked.or_else(|| own().find(|row| row.measured.1 == Encoding::Aql)).unwrap_or(&MEASURED[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_nearest_chip_stands_for_others() {
        let of = |isa, encoding| {
            let launch = LaunchCost::of(isa, encoding);
            (launch.nanoseconds, launch.measured.1)
        };
        assert_eq!(of(Isa::GFX1100, Encoding::Pm4), (880.0, Encoding::Pm4));
        assert_eq!(of(Isa::GFX1102, Encoding::Aql), (3500.0, Encoding::Aql));
        assert_eq!(of(Isa::GFX1150, Encoding::Pm4), (1890.0, Encoding::Aql));
        assert_eq!(of(Isa::GFX1200, Encoding::Pm4), (2550.0, Encoding::Aql));
        assert_eq!(of(Isa::GFX942, Encoding::Aql), (3500.0, Encoding::Aql));
        let text = LaunchCost::of(Isa::GFX1151, Encoding::Pm4).to_string();
        assert_eq!(text, "1.89 us, measured by others with aql on gfx1151: 1.75 to 1.89 by HIP");
    }
}
