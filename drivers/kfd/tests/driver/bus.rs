//! Mappings whose pages are taken away, with a file that shrinks in the part of the device.

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release};
use crate::queue::Clock;
use crate::queue::{open, packets};
use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{AllocError, Bytes, Name, UploadError, Uploader, Usage};
use doorbell_kfd::process::DeviceIndex;
use doorbell_kfd::queue::{CopyEngine, CopyError, Queue, QueueOptions, SubmitError};
use doorbell_kfd::sys::{BusGuard, Kernel, Linux, MapAddress, Window};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mapping of a file, which can be cut.
struct Taken {
    path: PathBuf,
    window: Window,
}

impl Taken {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bus-{name}-{}", std::process::id()));
        std::fs::write(&path, [0; 3 * 4096]).expect("file");
        let fd = Linux.open(path.to_str().expect("UTF-8")).expect("open");
        let window = Linux.map(&fd, 0, 8192, MapAddress::Anywhere).expect("map");
        Linux.close(fd);
        Self { path, window }
    }

    fn take_away(&self) {
        std::fs::File::create(&self.path).expect("cut");
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn a_guarded_window_may_vanish() {
    let (first, second) = (Taken::new("first"), Taken::new("second"));
    let guards = [&first, &second].map(|taken| BusGuard::new(&taken.window).expect("guarded"));
    first.window.store64(8, 1);
    first.take_away();
    assert_eq!([guards[0].is_gone(), guards[1].is_gone()], [false, false]);
    first.window.store64(8, 2);
    assert_eq!([guards[0].is_gone(), guards[1].is_gone()], [true, false]);
    assert_eq!((first.window.load64(8), first.window.load64(4096)), (2, 0));
    drop(guards);
    // The slots are free again, and what was gone is not gone for the next window.
    let third = Taken::new("third");
    for _ in 0..4 {
        // half of all: the process has other tests at the same time, perhaps, whose windows need theirs
        let many: Vec<_> = (0..32).filter_map(|_| BusGuard::new(&third.window)).collect();
        assert!(many.len() == 32 && many.iter().all(|guard| !guard.is_gone()));
    }
}

/// The same in a program of its own, without a guard.
#[test]
fn other_bus_errors_end_the_program_as_before() {
    const MARK: &str = "DOORBELL_BUS_ERROR";
    if std::env::var_os(MARK).is_some() {
        let (guarded, other) = (Taken::new("guarded"), Taken::new("other"));
        let _guard = BusGuard::new(&guarded.window).expect("guarded");
        other.take_away();
        let _ = std::fs::remove_file(&guarded.path);
        let _ = std::fs::remove_file(&other.path);
        other.window.store64(0, 1);
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "bus::other_bus_errors_end_the_program_as_before"]).env(MARK, "1");
    let status = child.output().expect("started").status;
    assert_eq!(status.signal(), Some(7), "{status}");
}

#[test]
fn a_device_whose_doorbells_vanish_is_lost() {
    let fake = Fake::new(Machine::new(Release::V7_2, 64 * GIB, &["RX 7600"]));
    let taken = std::sync::Arc::new(Taken::new("doorbells"));
    fake.inject(|injection| injection.doorbells = Some(taken.path.clone()));
    let mut process = open(&fake);
    let mut queue = Queue::create(&mut process, DeviceIndex(0), QueueOptions::default()).expect("queue");
    let mut engine = CopyEngine::create(&mut process, DeviceIndex(0)).expect("engine");
    queue.submit(&process, &packets(3), 1).expect("room");
    assert!(!process.device(DeviceIndex(0)).is_lost());
    taken.take_away();
    assert_eq!(queue.submit(&process, &packets(3), 2), Err(SubmitError::Dead));
    assert!(process.device(DeviceIndex(0)).is_lost());
    let Some(fault @ Fault::Gone(..)) = queue.fault() else { panic!("{:?}", queue.fault()) };
    assert_eq!(fault.lost_gpu(), Some(process.device(DeviceIndex(0)).gpu_id()));
    assert!(fault.to_string().contains("is gone: it was reset or unplugged"));
    assert_eq!(queue.submit(&process, &packets(1), 3), Err(SubmitError::Dead));
    assert_eq!(engine.copy(&process, 1 << 20, 1 << 21, 8), Err(CopyError::Lost));
    engine.destroy(&mut process).expect("destroy");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}

/// Registers, and memory behind the BAR, of one device of two.
#[test]
fn any_page_of_a_device_may_vanish() {
    let lost = UploadError::Alloc(AllocError::Lost);
    for what in ["registers", "memory"] {
        let fake = Fake::new(Machine::new(Release::V7_2, 64 * GIB, &["RX 7600", "RX 9070 XT"]));
        let taken = Taken::new(what);
        fake.inject(|injection| match what {
            "registers" => injection.registers = Some(taken.path.clone()),
            _ => injection.memory = Some((12288, taken.path.clone())),
        });
        let mut process = open(&fake);
        let devices = [DeviceIndex(0), DeviceIndex(1)];
        let (data, other) = (process.allocate(devices[0], Usage::Data, 12288, Name::new("data")), devices[1]);
        let data = data.expect("memory");
        let mut uploader = Uploader::new(&mut process, devices[0]).expect("uploader");
        let mut upload = |process: &mut _| {
            uploader.upload(process, &data, 8, &mut Bytes(&[7; 10_000]), 10_000, &mut Clock::default())
        };
        upload(&mut process).expect("uploaded");
        assert!(devices.iter().all(|&device| !process.is_lost(device)));
        taken.take_away();
        assert_eq!(upload(&mut process), Err(lost.clone()), "{what}");
        assert_eq!((process.is_lost(devices[0]), process.is_lost(other)), (true, false), "{what}");
        let more = process.allocate(devices[0], Usage::Data, 4096, Name::new("more"));
        assert_eq!(more.err(), Some(AllocError::Lost));
        // What is reopened is guarded anew.
        fake.inject(|injection| (injection.registers, injection.memory) = (None, None));
        process.reopen();
        assert!(!process.is_lost(devices[0]));
        let _ = process.free(data);
        process.allocate(devices[0], Usage::Data, 4096, Name::new("after")).expect("memory");
        assert!(process.shutdown().is_err(), "one buffer is left");
    }
}

#[test]
fn queues_take_nothing_after_memory_has_vanished() {
    let fake = Fake::new(Machine::new(Release::V7_2, 64 * GIB, &["RX 7600"]));
    let taken = Taken::new("data");
    let mut process = open(&fake);
    let mut queue = Queue::create(&mut process, DeviceIndex(0), QueueOptions::default()).expect("queue");
    let mut engine = CopyEngine::create(&mut process, DeviceIndex(0)).expect("engine");
    fake.inject(|injection| injection.memory = Some((12288, taken.path.clone())));
    let data = process.allocate(DeviceIndex(0), Usage::Data, 12288, Name::new("data")).expect("memory");
    queue.submit(&process, &packets(3), 1).expect("room");
    assert!(engine.copy(&process, data.va() + 64, data.va(), 8).expect("copy").is_some());
    taken.take_away();
    data.window().expect("mapped").store32(4096, 1);
    assert!(process.is_lost(DeviceIndex(0)));
    assert_eq!(queue.submit(&process, &packets(3), 2), Err(SubmitError::Dead));
    assert_eq!(engine.copy(&process, data.va() + 64, data.va(), 8), Err(CopyError::Lost));
    engine.destroy(&mut process).expect("destroy");
    process.free(data).expect("free");
    queue.destroy(&mut process).expect("destroy");
    process.shutdown().expect("nothing left");
    assert_eq!(fake.held(), (0, 0, 0));
}
