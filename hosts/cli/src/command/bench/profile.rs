//! Times of kernels: as a table by kernel, and as a trace for Chrome and Perfetto.

use crate::failure::{Failure, Kind};
use crate::output::print;
use alloc::collections::BTreeMap;
use core::fmt;
use doorbell_runtime::backend::Timing;
use serde_json::{Value, json};
use std::path::Path;

/// The dispatches of one test.
pub(super) struct Phase {
    /// The test.
    pub(super) name: String,
    pub(super) timings: Vec<Timing>,
}

/// Total of the dispatches of one kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    nanoseconds: u64,
}

impl Sum {
    fn total_us(&self) -> f64 {
        self.nanoseconds as f64 / 1e3
    }

    fn mean_us(&self) -> f64 {
        self.total_us() / self.calls.max(1) as f64
    }
}

fn nanoseconds(timing: &Timing) -> u64 {
    timing.end.saturating_sub(timing.start)
}

impl Phase {
    /// The kernels, those with the longest total time first.
    fn kernels(&self) -> Vec<(&str, Sum)> {
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        for timing in &self.timings {
            let sum = sums.entry(&timing.kernel).or_default();
            sum.calls += 1;
            sum.nanoseconds += nanoseconds(timing);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, sum)| core::cmp::Reverse(sum.nanoseconds));
        sums
    }

    /// Microseconds in kernels, and from the start of the first to the end of the last.
    fn times(&self) -> [f64; 2] {
        let busy: u64 = self.timings.iter().map(nanoseconds).sum();
        let start = self.timings.iter().map(|timing| timing.start).min().unwrap_or(0);
        let end = self.timings.iter().map(|timing| timing.end).max().unwrap_or(0);
        [busy, end.saturating_sub(start)].map(|nanoseconds| nanoseconds as f64 / 1e3)
    }

    fn json(&self) -> Value {
        let [busy, span] = self.times();
        let kernel = |(kernel, sum): (&str, Sum)| {
            json!({
                "kernel": kernel,
                "calls": sum.calls,
                "total_us": sum.total_us(),
                "mean_us": sum.mean_us(),
                "share": sum.total_us() / busy.max(f64::MIN_POSITIVE),
            })
        };
        let kernels: Vec<_> = self.kernels().into_iter().map(kernel).collect();
        json!({ "test": self.name, "busy_us": busy, "span_us": span, "kernels": kernels })
    }

    fn events(&self) -> impl Iterator<Item = Value> {
        self.timings.iter().map(|timing| {
            json!({
                "name": timing.kernel,
                "cat": self.name,
                "ph": "X",
                "ts": timing.start as f64 / 1e3,
                "dur": nanoseconds(timing) as f64 / 1e3,
                "pid": 1,
                "tid": 1,
                "args": { "rows": timing.rows },
            })
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [busy, span] = self.times();
        writeln!(f, "{}: {busy:.1} us in kernels, {span:.1} us from first to last", self.name)?;
        for (kernel, sum) in self.kernels() {
            let share = 100.0 * sum.total_us() / busy.max(f64::MIN_POSITIVE);
            writeln!(
                f,
                "  {share:>5.1} % {:>12.1} us {:>8} calls {:>10.2} us each  {kernel}",
                sum.total_us(),
                sum.calls,
                sum.mean_us()
            )?;
        }
        Ok(())
    }
}

/// Prints the times.
pub(super) fn print_times(phases: &[Phase], device: &str, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let phases: Vec<_> = phases.iter().map(Phase::json).collect();
        return crate::output::print_json(&json!({ "profile": phases, "device": device }));
    }
    let phases: Vec<_> = phases.iter().map(ToString::to_string).collect();
    print(format!("{}device {device}\n", phases.concat()))
}

/// Writes a trace in Chrome's format.
pub(super) fn write_trace(path: &Path, phases: &[Phase], device: &str) -> Result<(), Failure> {
    let name = json!({
        "name": "process_name",
        "ph": "M",
        "pid": 1,
        "args": { "name": format!("doorbell on {device}") },
    });
    let events: Vec<_> = core::iter::once(name).chain(phases.iter().flat_map(Phase::events)).collect();
    let document = json!({ "displayTimeUnit": "ns", "traceEvents": events });
    std::fs::write(path, document.to_string()).map_err(|error| {
        Failure::new(
            Kind::Input,
            format_args!("{}: {error}; name a file that can be written", path.display()),
        )
    })
}
