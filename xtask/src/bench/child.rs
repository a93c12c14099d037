//! Runs a program and reads its memory and processor time from /proc.

use anyhow::{Context as _, bail};
use core::time::Duration;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Output and resources of a run.
pub(super) struct Run {
    /// Standard output.
    pub(super) output: Vec<u8>,
    /// Peak resident bytes, file pages included.
    pub(super) peak_rss: u64,
    /// Seconds of user and system time of all threads, to within a sampling interval.
    pub(super) processor: f64,
    /// Seconds from start to end.
    pub(super) wall: f64,
}

/// Clock ticks of /proc per second: fixed at 100 for user space on Linux.
const TICKS: f64 = 100.0;

/// Interval between two samples of /proc.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs the command to its end. Fails if the command fails.
pub(super) fn run(command: &mut Command) -> Result<Run, anyhow::Error> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    let mut pipe = child.stdout.take().context("standard output is piped")?;
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        pipe.read_to_end(&mut output).map(|_| output)
    });
    let (mut peak_rss, mut processor) = (0, 0.0);
    let status = loop {
        peak_rss = peak(child.id()).unwrap_or(peak_rss);
        processor = ticks(child.id()).map_or(processor, |ticks| ticks as f64 / TICKS);
        match child.try_wait()? {
            Some(status) => break status,
            None => std::thread::sleep(INTERVAL),
        }
    };
    let wall = start.elapsed().as_secs_f64();
    let output = reader.join().ok().context("the reader of standard output panicked")??;
    if !status.success() {
        bail!("{:?} failed: {status}", command.get_program());
    }
    Ok(Run { output, peak_rss, processor, wall })
}

fn peak(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// User and system ticks. A process that has ended still has them until it is waited for.
fn ticks(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may contain spaces, so fields are counted after its closing bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_watched_and_its_output_kept() {
        let run = run(Command::new("sh").args(["-c", "sleep 0.1; echo done"])).unwrap();
        assert_eq!(run.output, b"done\n");
        assert!(run.peak_rss > 100_000, "{}", run.peak_rss);
    }

    #[test]
    fn failure_is_an_error() {
        assert!(run(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }
}
