//! Measures our program with `doorbell bench --json`.

use super::{Contestant, Task, child};
use anyhow::Context as _;
use serde_json::Value as Json;
use std::path::Path;
use std::process::Command;

/// The program's figures, including those that llama-bench does not report.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) contestant: Contestant,
    /// Bytes of weights that one generated token reads.
    pub(super) token_bytes: f64,
    /// Read bandwidth of the machine in bytes per second, the best of all runs.
    pub(super) bandwidth: f64,
}

/// Runs the program once and adds its samples.
pub(super) fn measure(program: &Path, task: &Task, measured: &mut Measured) -> Result<(), anyhow::Error> {
    let mut command = Command::new(program);
    command.arg("bench").arg(&task.model).args(task.numbers()).arg("--json");
    let run = child::run(&mut command)?;
    let figures: Json = serde_json::from_slice(&run.output).context("`doorbell bench` printed no JSON")?;
    let [prompt, generate] = ["pp", "tg"].map(|phase| samples(&figures[phase]));
    measured.contestant.add(&run, prompt, generate);
    measured.token_bytes = figures["bytes_per_token"].as_f64().unwrap_or(f64::NAN);
    measured.bandwidth =
        measured.bandwidth.max(figures["read_bytes_per_second"].as_f64().unwrap_or_default());
    Ok(())
}

/// Tokens per second of each repetition of one phase.
fn samples(phase: &Json) -> Vec<f64> {
    phase["repetitions"].as_array().into_iter().flatten().filter_map(Json::as_f64).collect()
}
