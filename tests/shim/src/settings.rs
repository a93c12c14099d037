//! Settings from the environment of a client.
//!
//! - `DOORBELL_SHIM_CHIP`: chips by name or instruction set, separated by commas (default `gfx1100`).
//! - `DOORBELL_SHIM_KERNEL`: `6.1`, `6.12` (default) or `7.2`.
//! - `DOORBELL_SHIM_LEVEL`: `strict` (default) or `fast`.
//! - `DOORBELL_SHIM_SEED`: number of the seed (default 0).
//! - `DOORBELL_SHIM_SCALAR_READS`: `0` if the client's compiler does not follow gfx12's rule for scalar registers that
//!   vector instructions read (LLVM before 22).
//! - `DOORBELL_SHIM_REPORT`: file to append a report to at exit (default none).
//! - `DOORBELL_SHIM_TRACE`: set, every call of the driver is written to stderr.

use doorbell_soft::kernel::{Chip, Machine, Release, chip};
use doorbell_soft::processor::{Level, Options};
use std::path::PathBuf;

/// Bytes of system memory of the machine that is shown.
const RAM: u64 = 64 << 30;

/// All settings.
pub(crate) struct Settings {
    /// The machine.
    pub(crate) machine: Machine,
    /// Options of the processor.
    pub(crate) options: Options,
    /// File for the report.
    pub(crate) report: Option<PathBuf>,
    /// Calls are written to stderr.
    pub(crate) trace: bool,
}

impl Settings {
    /// Reads the environment; the text of an error names the variable.
    pub(crate) fn read() -> Result<Self, String> {
        let text = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let chips = text("DOORBELL_SHIM_CHIP", "gfx1100");
        let chips: Result<Vec<Chip>, String> = chips
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| chip(name).ok_or_else(|| format!("DOORBELL_SHIM_CHIP: no chip {name:?}")))
            .collect();
        let release = match text("DOORBELL_SHIM_KERNEL", "6.12").as_str() {
            "6.1" => Release::V6_1,
            "6.12" => Release::V6_12,
            "7.2" => Release::V7_2,
            other => return Err(format!("DOORBELL_SHIM_KERNEL: {other:?}, expected 6.1, 6.12 or 7.2")),
        };
        let level = match text("DOORBELL_SHIM_LEVEL", "strict").as_str() {
            "strict" => Level::Strict,
            "fast" => Level::Fast,
            other => return Err(format!("DOORBELL_SHIM_LEVEL: {other:?}, expected strict or fast")),
        };
        let seed = text("DOORBELL_SHIM_SEED", "0");
        let seed = seed.parse().map_err(|_| format!("DOORBELL_SHIM_SEED: {seed:?} is no number"))?;
        Ok(Self {
            machine: Machine::new(release, RAM, &chips?),
            options: Options {
                level,
                seed,
                scalar_reads: text("DOORBELL_SHIM_SCALAR_READS", "1") != "0",
                ..Options::default()
            },
            report: std::env::var_os("DOORBELL_SHIM_REPORT").map(PathBuf::from),
            trace: std::env::var_os("DOORBELL_SHIM_TRACE").is_some(),
        })
    }
}
