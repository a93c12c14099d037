//! A server that was started for one run, and its figures in /proc.

use super::bare::Rhythm;
use crate::http;
use anyhow::{Context as _, bail};
use core::net::SocketAddr;
use core::time::Duration;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The program that serves.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Ours(PathBuf),
    /// A socket that is written to in this rhythm.
    Bare(Rhythm),
    Peer(PathBuf),
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ours(_) => "doorbell",
            Self::Bare(_) => "bare socket",
            Self::Peer(_) => "llama-server",
        }
    }
}

/// A server that answers. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    address: SocketAddr,
    /// True if its threads have the names of our threads.
    named: bool,
}

/// Time limit for loading a model and for ending.
const PATIENCE: Duration = Duration::from_secs(120);

/// Our threads that accept connections and write answers.
const SERVING: [&str; 2] = ["socket", "operations"];

/// Our threads that render templates and tokenize prompts.
const PARSING: &str = "parsing";

/// Processor seconds of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Processor {
    pub(crate) all: f64,
    /// Of the threads that write answers, and of those that read prompts, if they can be distinguished.
    pub(crate) serving: Option<[f64; 2]>,
}

impl Running {
    /// Starts a server for `streams` requests of `context` tokens each, and waits until it answers.
    pub(crate) fn start(
        kind: &Kind,
        model: &Path,
        streams: usize,
        context: usize,
        threads: usize,
    ) -> Result<Self, anyhow::Error> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (port, threads) = (address.port().to_string(), threads.to_string());
        let mut command = match kind {
            Kind::Ours(program) => {
                let mut command = Command::new(program);
                command.arg("serve").arg(model).args(["--port", &port, "--device", "cpu", "-t", &threads]);
                command.args(["--parallel", &streams.to_string(), "--ctx", &context.to_string()]);
                command
            }
            Kind::Bare(Rhythm { bytes, step, generate }) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("bare-socket").arg(model).args(["--port", &port, "--threads", &threads]);
                command.args([
                    format!("--bytes={bytes}"),
                    format!("--step={step}"),
                    format!("--generate={generate}"),
                ]);
                command
            }
            Kind::Peer(program) => {
                let mut command = Command::new(program);
                command.arg("-m").arg(model).args(["--host", "127.0.0.1", "--port", &port, "-t", &threads]);
                command.args(["-np", &streams.to_string(), "-c", &(context * streams).to_string()]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
        let mut running = Self { child, address, named: !matches!(kind, Kind::Peer(_)) };
        let start = Instant::now();
        while !http::get(address, "/health").is_ok_and(|(status, _)| status == 200) {
            if let Some(status) = running.child.try_wait()? {
                bail!("{} ended before it answered: {status}", kind.name());
            }
            if start.elapsed() > PATIENCE {
                bail!("{} does not answer", kind.name());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(running)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time so far, to the nanosecond. Our threads have names; the peer's can't be distinguished.
    pub(crate) fn processor(&self) -> Processor {
        let mut processor = Processor { all: 0.0, serving: self.named.then_some([0.0; 2]) };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let nanoseconds = read("schedstat").split_whitespace().next().and_then(|word| word.parse().ok());
            let seconds = nanoseconds.unwrap_or(0.0_f64) / 1e9;
            processor.all += seconds;
            let (name, serving) = (read("comm"), processor.serving.as_mut());
            let Some([socket, parsing]) = serving else { continue };
            if SERVING.contains(&name.trim()) {
                *socket += seconds;
            } else if name.trim() == PARSING {
                *parsing += seconds;
            }
        }
        processor
    }

    /// Open files, threads and resident bytes.
    pub(crate) fn resources(&self) -> [u64; 3] {
        let id = self.child.id();
        let entries =
            |name: &str| std::fs::read_dir(format!("/proc/{id}/{name}")).map_or(0, |all| all.count() as u64);
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        [entries("fd"), entries("task"), resident.unwrap_or(0) << 10]
    }

    /// Terminates the server. Returns the time it took.
    pub(crate) fn end(mut self) -> Result<Duration, anyhow::Error> {
        let start = Instant::now();
        let killed = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        killed.context("kill")?;
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > PATIENCE {
                bail!("the server does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(start.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // an error means that it has ended already
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
