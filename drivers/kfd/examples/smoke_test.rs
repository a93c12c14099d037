//! The first program to run on a machine with a card: topology, bring-up, a copy, queues, waiting, teardown. It needs
//! no kernels of ours: the packets are barriers.
//!
//! `cargo run --release -p doorbell-kfd --example first_light`; exit code as `doorbell doctor`.

use core::error::Error;
use core::time::Duration;
use doorbell_kfd::doctor::{Examination, ExamineInputs, examine};
use doorbell_kfd::memory::{Bytes, Name, Uploader, Usage};
use doorbell_kfd::packet::{Header, Packet, PacketKind, Scope, barrier_and};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::queue::{Queue, QueueOptions, WaitLimits};
use doorbell_kfd::sys::{Kernel, Linux};
use doorbell_kfd::topology::{Topology, choose};
use std::process::ExitCode;
use std::time::Instant;

struct Sleep;

impl embedded_hal::delay::DelayNs for Sleep {
    fn delay_ns(&mut self, ns: u32) {
        let duration = Duration::from_nanos(ns.into());
        if ns >= 50_000 {
            std::thread::sleep(duration);
        } else {
            let start = Instant::now();
            while start.elapsed() < duration {
                core::hint::spin_loop();
            }
        }
    }
}

fn main() -> ExitCode {
    let Ok(examination) = examine(&Linux, ExamineInputs::default()) else { return ExitCode::FAILURE };
    println!("Linux {}", examination.release);
    for finding in &examination.findings {
        println!("{:?}: {finding}\n  {}", finding.severity(), finding.remedy());
    }
    if !examination.devices.is_empty()
        && let Err(error) = light(&Linux, &examination)
    {
        println!("failed: {error}");
        return ExitCode::from(2);
    }
    ExitCode::from(examination.worst().map_or(0, |worst| worst as u8))
}

fn light(kernel: &dyn Kernel, examination: &Examination) -> Result<(), Box<dyn Error>> {
    let choice = choose(&examination.devices).ok_or("no device has kernels")?;
    println!("{choice}");
    let topology = Topology::scan(kernel)?;
    let node =
        topology.gpus().find(|node| node.gpu_id == choice.device.gpu_id).ok_or("the device is gone")?;
    let start = Instant::now();
    let mut process = Process::open(kernel, &[node])?;
    println!("interface {}, bring-up {:?}", process.version(), start.elapsed());
    println!("{}", process.budget(DeviceIndex(0)));
    copy(&mut process)?;
    for packets in [1, 64, 1000] {
        queue(&mut process, packets)?;
    }
    process.shutdown()?;
    Ok(())
}

/// Bytes to the device and back.
fn copy(process: &mut Process<'_>) -> Result<(), Box<dyn Error>> {
    const BYTES: usize = 64 << 20;
    let first = DeviceIndex(0);
    let pattern: Vec<u8> = (0..BYTES).map(|at| ((at * 7) >> 3) as u8).collect();
    let mut uploader = Uploader::new(process, first)?;
    let target =
        process.allocate_patiently(first, Usage::Data, BYTES as u64, Name::new("target"), &mut Sleep)?;
    let start = Instant::now();
    uploader.upload(process, &target, 0, &mut Bytes(&pattern), BYTES as u64, &mut Sleep)?;
    let seconds = start.elapsed().as_secs_f64();
    println!("upload by SDMA: {}, {:.2} GB/s", uploader.is_staged(), BYTES as f64 / seconds / 1e9);
    if let Some(window) = target.window() {
        let mut back = vec![0; 1 << 20];
        window.read(BYTES - back.len(), &mut back);
        println!("read back equal: {}", back == pattern[BYTES - back.len()..]);
    }
    uploader.destroy(process)?;
    process.free(target)?;
    Ok(())
}

/// Barrier packets: spinning, then sleeping at once.
fn queue(process: &mut Process<'_>, packets: usize) -> Result<(), Box<dyn Error>> {
    let options = QueueOptions { profile: true, ..QueueOptions::default() };
    let mut queue = Queue::create(process, DeviceIndex(0), options)?;
    let header =
        Header { kind: PacketKind::BarrierAnd, barrier: true, acquire: Scope::Agent, release: Scope::Agent };
    let batch: Vec<Packet> = vec![barrier_and(header, [0; 5]); packets];
    for (how, spin_us) in [("spinning", 1_000_000), ("sleeping", 0)] {
        let patience = WaitLimits { spin_us, ..WaitLimits::default() };
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            let submission = queue.submit(process, &batch, 0)?;
            if let Err(error) = queue.wait(process, submission, patience, &mut Sleep) {
                return Err(queue.fault().map_or_else(|| error.to_string(), ToString::to_string).into());
            }
            best = best.min(start.elapsed());
        }
        println!("{packets} packets, {how}: {best:?}, stamps {:?}", queue.timestamps());
    }
    queue.destroy(process)?;
    Ok(())
}
