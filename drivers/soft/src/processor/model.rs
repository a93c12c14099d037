//! Modelled time of a profile on a chip, by public constants.
//!
//! A time from here was never measured; print it as "modelled". It ranks plans and finds the bound of a kernel. It has
//! no clock management, no contention between kernels, and treats memory-side cache as memory. Source:
//! docs/facts/rdna.md. Not here: the counts (`meter.rs`).

use doorbell_isa::{Target, Timing};
use doorbell_kfd::packet::{Encoding, LaunchCost};
use doorbell_kfd::topology::Isa;

use crate::chips::{CHIPS, Chip};

use super::profile::{Profile, TIMINGS};

/// Constants of a chip.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Marketing name.
    pub name: &'static str,
    /// Instruction set.
    pub target: Target,
    /// Compute units; each has two vector units.
    pub units: u64,
    /// Shader arrays.
    pub arrays: u64,
    /// Clocks per nanosecond.
    pub clock: f64,
    /// Bytes of L2.
    pub l2: u64,
    /// Bytes per nanosecond from memory, as far as whole kernels reached them.
    pub bandwidth: f64,
    /// The chip as the driver knows it.
    pub isa: Isa,
    /// Encoding in which dispatches are submitted.
    pub encoding: Encoding,
}

/// Bytes per clock from GL0 and LDS of one compute unit: 32 banks of four bytes for LDS, planning value for GL0.
const GL0_BYTES: f64 = 64.0;
/// LDS bytes that two compute units share.
const LDS: u64 = 128 << 10;
const MOST_WAVES: u64 = 16;

/// Modelled nanoseconds of one dispatch. The parts overlap; the longest of them and the launch are the time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Modelled {
    /// Launch behind a dispatch it depends on.
    pub launch: f64,
    /// Vector arithmetic.
    pub vector: f64,
    /// Scalar arithmetic and control.
    pub scalar: f64,
    /// Local data share.
    pub lds: f64,
    /// Vector cache.
    pub gl0: f64,
    /// Memory.
    pub memory: f64,
    /// Latencies that too few resident waves leave exposed.
    pub latency: f64,
    /// Waves resident per vector unit.
    pub occupancy: u64,
}

impl Modelled {
    /// Total nanoseconds.
    pub fn total(&self) -> f64 {
        let parts = [self.vector, self.scalar, self.lds, self.gl0, self.memory, self.latency];
        self.launch + parts.into_iter().fold(0.0, f64::max)
    }

    /// Name of the longest part.
    pub fn bound(&self) -> &'static str {
        let parts = [
            ("vector", self.vector),
            ("scalar", self.scalar),
            ("lds", self.lds),
            ("gl0", self.gl0),
            ("memory", self.memory),
            ("latency", self.latency),
        ];
        parts.into_iter().fold(("launch", self.launch), |a, b| if b.1 > a.1 { b } else { a }).0
    }
}

impl Model {
    fn new(chip: &Chip) -> Option<Self> {
        let rates = chip.rates?;
        Some(Self {
            name: chip.name,
            target: chip.target,
            units: u64::from(chip.compute_units),
            arrays: rates.arrays,
            clock: f64::from(rates.clock_mhz) / 1e3,
            l2: rates.l2,
            bandwidth: f64::from(rates.bandwidth_gb),
            isa: Isa(chip.version),
            encoding: Encoding::Pm4,
        })
    }

    fn all() -> impl Iterator<Item = Self> {
        CHIPS.iter().filter_map(Self::new)
    }

    /// The constants of a product, by its marketing name or instruction set.
    pub fn of(name: &str) -> Option<Self> {
        Self::all().find(|model| model.name == name || model.target.name() == name)
    }

    /// The constants of the first product with an instruction set, or else with the same generation.
    pub fn of_target(target: Target) -> Self {
        let same = Self::all().find(|model| model.target == target);
        let near = || Self::all().find(|model| model.target.generation() == target.generation());
        same.or_else(near).expect("each generation has a product with rates")
    }

    /// The same chip with another encoding of dispatches; the default is PM4.
    pub fn submitting(self, encoding: Encoding) -> Self {
        Self { encoding, ..self }
    }

    /// Cost of a launch.
    pub fn launch(&self) -> LaunchCost {
        LaunchCost::of(self.isa, self.encoding)
    }

    /// Waves of a kernel that one vector unit holds.
    pub fn occupancy(&self, profile: &Profile) -> u64 {
        let vgprs = profile.vgprs.min(256) as u16;
        let by_registers = u64::from(self.target.waves_per_simd(vgprs));
        let per_group = profile.waves.checked_div(profile.groups).unwrap_or(1).max(1);
        // Four vector units share the LDS of two compute units.
        let by_lds =
            LDS.checked_div(profile.lds).map_or(MOST_WAVES, |groups| (groups * per_group / 4).max(1));
        by_registers.min(by_lds).clamp(1, MOST_WAVES)
    }

    /// The time of a profile, modelled.
    pub fn time(&self, profile: &Profile) -> Modelled {
        let generation = self.target.generation();
        let simds = (self.units * 2).min(profile.waves.max(1)) as f64;
        let units = self.units.min(profile.groups.max(1)) as f64;
        let occupancy = self.occupancy(profile);
        let count = |value: u64| value as f64;
        // One wave alone: every instruction issues in turn, and every wait takes the latency of the kernel's memory
        // instructions, in their mean.
        let memories = [Timing::Vmem, Timing::Flat, Timing::Lds, Timing::Smem];
        let (asked, answered) = memories.iter().fold((0, 0), |(asked, answered), timing| {
            let count = profile.of(*timing);
            (asked + count, answered + count * u64::from(timing.latency(generation)))
        });
        let waits = (profile.of(Timing::Wait) * answered).checked_div(asked).unwrap_or(0);
        let issue: u64 = TIMINGS
            .iter()
            .zip(profile.mix)
            .map(|(timing, count)| u64::from(timing.issue_cycles(generation)) * count)
            .sum();
        let alone = count(issue + waits) / count(profile.waves.max(1));
        let rounds = profile.waves.div_ceil(self.units * 2 * occupancy);
        Modelled {
            launch: self.launch().nanoseconds,
            vector: count(profile.vector_cycles) / simds / self.clock,
            scalar: count(profile.scalar_cycles) / simds / self.clock,
            lds: count(profile.lds_cycles) / units / self.clock,
            gl0: count(profile.traffic.gl0) / GL0_BYTES / units / self.clock,
            memory: count(profile.traffic.memory) / self.bandwidth,
            latency: alone * count(rounds) / self.clock,
            occupancy,
        }
    }
}
