//! Measures llama-bench with and without its repacked weights. They make it faster in one phase and slower in the other,
//! so each phase is compared with the better setting.

use super::{Contestant, Task, child};
use anyhow::Context as _;
use serde_json::Value as Json;
use std::path::Path;
use std::process::Command;

/// Runs llama-bench once and adds its samples.
pub(super) fn measure(
    program: &Path,
    task: &Task,
    repack: bool,
    contestant: &mut Contestant,
) -> Result<(), anyhow::Error> {
    let mut command = Command::new(program);
    command.arg("-m").arg(&task.model).args(task.numbers()).args(["-o", "json", "--repack"]);
    let run = child::run(command.arg(if repack { "1" } else { "0" }))?;
    let tests: Json = serde_json::from_slice(&run.output).context("llama-bench printed no JSON")?;
    let [prompt, generate] = ["n_prompt", "n_gen"].map(|key| samples(&tests, key));
    contestant.add(&run, prompt, generate);
    Ok(())
}

/// Tokens per second of the test for which `key` counts tokens.
fn samples(tests: &Json, key: &str) -> Vec<f64> {
    let mut tests = tests.as_array().into_iter().flatten();
    let test = tests.find(|test| test[key].as_u64().is_some_and(|tokens| tokens > 0));
    let samples = test.and_then(|test| test["samples_ts"].as_array()).into_iter().flatten();
    samples.filter_map(Json::as_f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_from_the_right_test() {
        let tests = serde_json::json!([
            {"n_prompt": 512, "n_gen": 0, "samples_ts": [500.0, 510.0]},
            {"n_prompt": 0, "n_gen": 128, "samples_ts": [180.0]},
        ]);
        assert_eq!(samples(&tests, "n_prompt"), [500.0, 510.0]);
        assert_eq!(samples(&tests, "n_gen"), [180.0]);
    }
}
