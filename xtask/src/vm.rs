//! `cargo xtask vm [KERNEL]`: boots Debian kernels with amdgpu and no GPU in QEMU and compares KFD's answers with the
//! committed transcript. The calls are in `drivers/kfd/tests/driver/transcript.rs`.
//!
//! QEMU emulates (TCG): that works on any host and takes 10 to 30 seconds per kernel.

mod initramfs;
mod package;

use crate::process::{root, static_program, works};
use anyhow::{Context as _, bail, ensure};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask vm`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// `6.1`, `6.12`, `backports`, a folder of unpacked kernel packages, or a kernel file that has amdgpu built in; the
    /// first three if none is named.
    kernel: Vec<String>,
    /// Write the transcript instead of comparing it.
    #[arg(long)]
    bless: bool,
}

/// Time limit of one boot.
const BOOT: Duration = Duration::from_secs(400);

pub(crate) fn run(arguments: &Arguments) -> Result<(), anyhow::Error> {
    if !works("qemu-system-x86_64", &["--version"]) {
        println!("vm: no qemu-system-x86_64 here (package qemu-system-x86): skipped");
        return Ok(());
    }
    let all: Vec<String> = package::SUITES.iter().map(|suite| suite.name.to_owned()).collect();
    let chosen = if arguments.kernel.is_empty() { &all } else { &arguments.kernel };
    let probe = static_program(&["--package", "doorbell-kfd", "--example", "vm_probe"], "examples/vm_probe")?;
    let mut differ = Vec::new();
    for name in chosen {
        let folder = match package::SUITES.iter().find(|suite| suite.name == *name) {
            Some(suite) => package::unpacked(suite)?,
            None => Some(PathBuf::from(name)),
        };
        let Some(folder) = folder else {
            println!("vm: the packages of kernel {name} cannot be fetched here: skipped");
            continue;
        };
        if !boot_and_compare(&folder, &probe, arguments.bless)? {
            differ.push(name.as_str());
        }
    }
    ensure!(differ.is_empty(), "answers differ from the committed ones: {}", differ.join(", "));
    Ok(())
}

/// `6.12` of `6.12.117+deb13-amd64`.
fn series(release: &str) -> String {
    release.split(['.', '-', '+']).take(2).collect::<Vec<_>>().join(".")
}

/// File of the committed transcript: one per series, another one for a kernel with amdgpu built in.
fn golden(kernel: &package::Kernel) -> String {
    let kind = if kernel.modules.is_some() { "" } else { "-built-in" };
    format!("drivers/kfd/tests/goldens/kernel-{}{kind}.txt", series(&kernel.release))
}

/// Boots a kernel. Returns true if its transcript is the committed one, or has been written.
fn boot_and_compare(folder: &Path, probe: &Path, bless: bool) -> Result<bool, anyhow::Error> {
    let kernel = package::Kernel::find(folder)?;
    let work = root().join("target/vm");
    std::fs::create_dir_all(&work)?;
    let image = work.join("initramfs.cpio");
    std::fs::write(&image, initramfs::build(probe, &kernel)?)?;
    let start = Instant::now();
    let console = boot(&kernel.image, &image)?;
    let seconds = start.elapsed().as_secs_f64();
    let clean = console.replace('\r', "");
    let transcript = clean.split_once("== begin\n").and_then(|(_, rest)| rest.split_once("== end\n"));
    let Some((transcript, _)) = transcript else {
        bail!("kernel {} printed no transcript:\n{clean}", kernel.release);
    };
    let golden = root().join(golden(&kernel));
    if bless {
        std::fs::write(&golden, transcript)?;
        println!("vm: kernel {} in {seconds:.1} s, written to {}", kernel.release, golden.display());
        return Ok(true);
    }
    let expected = std::fs::read_to_string(&golden).with_context(|| {
        format!("{}: no transcript of this series yet; --bless writes it", golden.display())
    })?;
    let lines = expected.lines().count();
    let mut equal = lines == transcript.lines().count();
    for (expected, got) in expected.lines().zip(transcript.lines()).filter(|(one, other)| !agrees(one, other))
    {
        println!("vm: kernel {}\n  expected {expected}\n  got      {got}", kernel.release);
        equal = false;
    }
    println!("vm: kernel {} in {seconds:.1} s, {lines} answers, equal: {equal}", kernel.release);
    Ok(equal)
}

/// True if an answer is one that the line allows: `call: one | other`, if releases of a series differ.
fn agrees(expected: &str, got: &str) -> bool {
    let (Some((call, answers)), Some((same, answer))) = (expected.split_once(": "), got.split_once(": "))
    else {
        return expected == got;
    };
    call == same && (answers == answer || answers.split(" | ").any(|allowed| allowed == answer))
}

/// Boots a kernel. Returns the text of its console.
fn boot(kernel: &Path, initramfs: &Path) -> Result<String, anyhow::Error> {
    let mut command = Command::new("qemu-system-x86_64");
    command.args([
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "1024",
        "-nodefaults",
        "-no-user-config",
    ]);
    command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    command.args(["-append", "console=ttyS0 loglevel=0 panic=-1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().context("start qemu-system-x86_64")?;
    let mut output = child.stdout.take().context("console of the machine")?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).map(|_| bytes)
    });
    let deadline = Instant::now() + BOOT;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            let said = reader.join().map_err(|_| anyhow::anyhow!("reader of the console"))??;
            bail!(
                "no end after {} s; the console printed:\n{}",
                BOOT.as_secs(),
                String::from_utf8_lossy(&said)
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let bytes = reader.join().map_err(|_| anyhow::anyhow!("reader of the console"))??;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{agrees, golden, package, series};

    #[test]
    fn the_series_is_the_first_two_numbers() {
        assert_eq!(series("6.1.0-57-amd64"), "6.1");
        assert_eq!(series("7.3.4+deb13-amd64"), "7.3");
        assert_eq!(series("6.18-rc1"), "6.18");
        let kernel =
            |modules| package::Kernel { release: "6.1.192-own".to_owned(), image: "".into(), modules };
        assert!(golden(&kernel(None)).ends_with("/kernel-6.1-built-in.txt"));
        assert!(golden(&kernel(Some("".into()))).ends_with("/kernel-6.1.txt"));
    }

    #[test]
    fn a_line_may_allow_several_answers() {
        assert!(agrees("a: EINVAL | 0", "a: 0") && agrees("a: EINVAL | 0", "a: EINVAL"));
        assert!(!agrees("a: EINVAL | 0", "a: 1") && !agrees("a: 0", "b: 0") && !agrees("a", "b"));
        assert!(agrees("a", "a"));
    }
}
