//! The table of a measurement, in Markdown.

use super::ours::Measured;
use super::{Contestant, Phase, Task};
use core::fmt::Write as _;

/// One phase of both programs: ours, and the better of the peer's two settings with its name.
struct Line<'c> {
    name: String,
    ours: &'c Phase,
    peer: Option<(&'static str, &'c Phase)>,
}

fn better(
    peers: Option<&[Contestant; 2]>,
    phase: fn(&Contestant) -> &Phase,
) -> Option<(&'static str, &Phase)> {
    let [off, on] = peers?.each_ref().map(phase);
    Some(if on.median() >= off.median() { ("repack", on) } else { ("no repack", off) })
}

/// The table of one model.
pub(super) fn table(
    name: &str,
    task: &Task,
    ours: &Measured,
    peers: Option<&[Contestant; 2]>,
) -> Result<String, core::fmt::Error> {
    let lines = [
        Line {
            name: format!("pp{}", task.prompt),
            ours: &ours.contestant.prompt,
            peer: better(peers, |contestant| &contestant.prompt),
        },
        Line {
            name: format!("tg{}", task.generate),
            ours: &ours.contestant.generate,
            peer: better(peers, |contestant| &contestant.generate),
        },
    ];
    let mut out = String::new();
    writeln!(out, "\n## {name}, {} threads\n", task.threads)?;
    writeln!(
        out,
        "| phase | doorbell tok/s | llama.cpp tok/s | ratio | doorbell GB/s | llama.cpp GB/s | % of read bandwidth |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for (index, line) in lines.iter().enumerate() {
        // Bytes per token are known for single tokens only; tokens of a prompt share reads.
        let bytes = if index == 1 { ours.token_bytes } else { f64::NAN };
        line.write(&mut out, bytes, ours.bandwidth)?;
    }
    let file = std::fs::metadata(&task.model).map_or(f64::NAN, |file| file.len() as f64);
    writeln!(
        out,
        "\nRead bandwidth measured: {} GB/s. Model file: {} MB.\n",
        figure(ours.bandwidth / 1e9, 1),
        figure(file / 1e6, 0)
    )?;
    writeln!(out, "| | peak RSS MB | processor s | wall s | processors busy |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    usage(&mut out, "doorbell", &ours.contestant)?;
    for (setting, peer) in ["no repack", "repack"].iter().zip(peers.into_iter().flatten()) {
        usage(&mut out, &format!("llama.cpp, {setting}"), peer)?;
    }
    let busy = ours.contestant.processor / ours.contestant.wall;
    if busy < 0.8 * task.threads as f64 {
        writeln!(out, "\nThe processors were busy with something else: these rates say little.")?;
    }
    Ok(out)
}

impl Line<'_> {
    fn write(&self, out: &mut String, bytes: f64, bandwidth: f64) -> core::fmt::Result {
        let ours = self.ours.median();
        let peer = self.peer.map_or(f64::NAN, |(_, phase)| phase.median());
        let setting = self.peer.map(|(setting, _)| format!(" ({setting})")).unwrap_or_default();
        let gigabytes = |rate: f64| figure(rate * bytes / 1e9, 1);
        writeln!(
            out,
            "| {} | {} | {}{setting} | {} | {} | {} | {} |",
            self.name,
            figure(ours, 1),
            figure(peer, 1),
            figure(ours / peer, 3),
            gigabytes(ours),
            gigabytes(peer),
            figure(100.0 * ours * bytes / bandwidth, 0),
        )
    }
}

fn usage(out: &mut String, name: &str, contestant: &Contestant) -> core::fmt::Result {
    let (processor, wall) = (contestant.processor, contestant.wall);
    let megabytes = contestant.peak_rss as f64 / 1e6;
    writeln!(
        out,
        "| {name} | {megabytes:.0} | {processor:.1} | {wall:.1} | {} |",
        figure(processor / wall, 2)
    )
}

/// A number, or a dash where there is none.
fn figure(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn each_phase_is_compared_with_the_better_setting() {
        let contestant = |prompt: f64, generate: f64| Contestant {
            prompt: Phase { samples: vec![prompt] },
            generate: Phase { samples: vec![generate] },
            peak_rss: 100_000_000,
            processor: 2.0,
            wall: 1.0,
        };
        let task = Task { model: PathBuf::new(), prompt: 512, generate: 128, repetitions: 1, threads: 2 };
        let ours = Measured { contestant: contestant(800.0, 50.0), token_bytes: 1e9, bandwidth: 100e9 };
        let peers = [contestant(1000.0, 40.0), contestant(600.0, 50.0)];
        let table = table("model", &task, &ours, Some(&peers)).unwrap();
        assert!(table.contains("| pp512 | 800.0 | 1000.0 (no repack) | 0.800 | - | - | - |"), "{table}");
        assert!(table.contains("| tg128 | 50.0 | 50.0 (repack) | 1.000 | 50.0 | 50.0 | 50 |"), "{table}");
        assert!(table.contains("| doorbell | 100 | 2.0 | 1.0 | 2.00 |"), "{table}");
    }
}
