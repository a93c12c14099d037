//! Hostile input by class, through the driver on the software kernel: each is refused or ends in an event, never in a
//! crash, and everything can be given back afterwards.
//!
//! Not here: random bytes (`hostile.rs`, which the fuzz targets share).

use doorbell_kfd::fault::Fault;
use doorbell_kfd::memory::{Name, Usage};
use doorbell_kfd::packet::{Dependency, Header, Packet, PacketKind, Recorder, pm4_buffer};
use doorbell_kfd::process::Process;
use doorbell_kfd::queue::WaitError;
use doorbell_soft::code::{CodeObject, ElfError};
use doorbell_soft::kernel::{Release, SoftKernel};
use doorbell_soft::processor::Level;

use crate::driver::{Bench, Clock, FIRST, MACHINES, header, kernel, open, staging};
use crate::hostile::elf;

/// Numbers that no pointer, length or count should be.
const HOSTILE: [u64; 10] = [
    0,
    1,
    0xfff,
    0x1234_5678_9000,
    1 << 47,
    0x7fff_ffff_ffff,
    1 << 63,
    0xffff_8000_0000_0000,
    u64::MAX - 7,
    u64::MAX,
];

/// Everything can be given back after whatever happened: no buffer, no queue is left.
fn gives_all_back(kernel: &SoftKernel, mut process: Process<'_>) {
    process.reopen();
    drop(process);
    assert_eq!(kernel.held(), (0, 0, 0));
}

/// Outcome of packets: completion or a reported fault.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ends {
    complete: usize,
    memory: usize,
    queue: usize,
    other: usize,
}

impl Ends {
    fn count(&mut self, result: Result<(), WaitError>, fault: Option<&Fault>) {
        match (result, fault) {
            (Ok(()), _) => self.complete += 1,
            (Err(WaitError::Faulted), Some(Fault::Memory(..))) => self.memory += 1,
            (Err(WaitError::Faulted), Some(Fault::Queue(..))) => self.queue += 1,
            // A queue that makes no progress is reported as a hang.
            (Err(WaitError::Faulted), Some(Fault::Hang(..) | Fault::Wave(..))) => self.other += 1,
            (result, fault) => panic!("{result:?} {fault:?}"),
        }
    }
}

#[test]
fn code_objects_cut_anywhere_are_refused() {
    for (_, _, file) in MACHINES {
        let whole = CodeObject::parse(file).unwrap();
        let read = (0..file.len()).filter_map(|len| CodeObject::parse(&file[..len]).ok());
        let read: Vec<CodeObject> = read.collect();
        // The last section header ends in fields that nobody reads.
        assert!(read.len() <= 20 && read.iter().all(|object| *object == whole), "{}", read.len());
        let kernel = kernel(Release::V7_2, MACHINES[0].0, Level::Fast, 0);
        let mut process = open(&kernel);
        let mut uploader = doorbell_kfd::memory::Uploader::new(&mut process, FIRST).expect("uploader");
        for len in (0..file.len()).step_by(97) {
            let cut = &file[..len];
            let clock = &mut Clock::default();
            let machine = crate::driver::machine(&process);
            let loaded =
                doorbell_kfd::code::Program::load(&mut process, &mut uploader, FIRST, cut, machine, clock);
            // Without its section headers a file may still hold all that is loaded.
            if let Ok(program) = loaded {
                assert!(len > file.len() / 2, "{len}");
                program.unload(&mut process).expect("free");
            }
        }
    }
}

#[test]
fn hostile_fields_of_code_objects_are_refused_or_harmless() {
    let (_, _, file) = MACHINES[0];
    let long = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    // The file header, all segments, all sections, and what the sections that are read hold.
    let mut fields: Vec<usize> = (4..64).step_by(2).collect();
    fields.extend((long(32)..long(32) + 56 * half(56)).step_by(4));
    fields.extend((long(40)..long(40) + 64 * half(60)).step_by(4));
    for section in 0..half(60) {
        let at = long(40) + 64 * section;
        if [2, 4, 11].contains(&u32::from_le_bytes(file[at + 4..at + 8].try_into().unwrap())) {
            fields.extend((long(at + 24)..long(at + 24) + long(at + 32)).step_by(4));
        }
    }
    let mut refused = 0;
    for field in &fields {
        for value in HOSTILE {
            let mut damaged = file.to_vec();
            let end = (field + 8).min(file.len());
            damaged[*field..end].copy_from_slice(&value.to_le_bytes()[..end - field]);
            match CodeObject::parse(&damaged) {
                Err(ElfError::Size(bytes)) => assert!(bytes > 64 << 20),
                Err(_) => refused += 1,
                Ok(object) => assert!(object.image.len() <= 64 << 20),
            }
            elf(&damaged);
        }
    }
    println!("{} fields, {refused} of {} files refused", fields.len(), fields.len() * HOSTILE.len());
    assert!(fields.len() > 300 && refused > 400);
}

#[test]
fn hostile_contents_of_a_ring_end_in_events() {
    let (name, _, file) = MACHINES[0];
    let mut ends = Ends::default();
    for word in 0..16 {
        for value in HOSTILE.map(|value| value as u32).into_iter().chain([0xffff_0002, 0x0003_0b02]) {
            let kernel = kernel(Release::V6_12, name, Level::Fast, u64::from(value));
            let mut process = open(&kernel);
            let mut bench = Bench::new(&mut process, file);
            let counter = staging(&mut process, 4096, "counter");
            let count = bench.recorded("count", 64, 0, &[counter.va()], Dependency::None);
            let mut packet = count.dispatch.encode(header(true));
            packet.0[word] = value;
            // The driver itself refuses packets that say they are none.
            if packet.0[0] & 0xff == 1 {
                continue;
            }
            // A grid of all the 32-bit numbers is honest work.
            if packet.0[3..6].iter().any(|size| *size > 1 << 16) {
                continue;
            }
            let result = bench.run(&mut process, &[packet]);
            ends.count(result, bench.queue.fault());
            gives_all_back(&kernel, process);
        }
    }
    println!("{ends:?}");
    assert!(ends.complete > 0 && ends.memory > 0 && ends.queue > 0, "{ends:?}");
}

#[test]
fn hostile_pm4_streams_end_in_events() {
    let mut ends = Ends::default();
    for (name, _, file) in MACHINES {
        let mut position = 0;
        loop {
            let mut words = 0;
            for value in [0, 1, 0x7fff_ffff, u32::MAX, 0xc000_1000 | 0x3fff << 16] {
                let kernel = kernel(Release::V6_12, name, Level::Fast, position as u64);
                let mut process = open(&kernel);
                let mut bench = Bench::new(&mut process, file);
                let output = staging(&mut process, 4096, "output");
                let buffer =
                    process.allocate(FIRST, Usage::Ring, 4096, Name::new("indirect")).expect("memory");
                let mut recorder = Recorder::new();
                let dispatch = bench.recorded("double_up", 64, 0, &[output.va(), 64], Dependency::Previous);
                recorder.add(dispatch).unwrap();
                let mut encoded = [0; 256];
                words = recorder.encode_pm4(process.device(FIRST).node().isa(), &mut encoded).expect("room");
                encoded[position] = value;
                for (index, word) in encoded[..words].iter().enumerate() {
                    buffer.window().unwrap().store32(index * 4, *word);
                }
                if is_honest(&encoded[..words]) {
                    let vendor = Header { kind: PacketKind::Vendor, ..header(true) };
                    let packet = pm4_buffer(vendor, buffer.va(), words as u32);
                    let result = bench.run(&mut process, &[packet]);
                    ends.count(result, bench.queue.fault());
                }
                gives_all_back(&kernel, process);
            }
            position += 1;
            if position == words {
                break;
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.complete > 0 && ends.memory > 0 && ends.memory + ends.queue + ends.other > 100, "{ends:?}");
}

/// True if no dispatch of a stream asks for billions of groups, which would only take long.
fn is_honest(words: &[u32]) -> bool {
    let mut at = 0;
    while at < words.len() && words[at] >> 30 == 3 {
        let is_dispatch = words[at] >> 8 & 0xff == 0x15;
        if is_dispatch && words[at + 1..].iter().take(3).any(|groups| *groups > 1 << 16) {
            return false;
        }
        at += (words[at] >> 16 & 0x3fff) as usize + 2;
    }
    true
}

#[test]
fn hostile_kernel_arguments_end_in_events() {
    for (name, _, file) in MACHINES {
        for pointer in HOSTILE {
            let kernel = kernel(Release::V6_12, name, Level::Strict, pointer);
            let mut process = open(&kernel);
            let mut bench = Bench::new(&mut process, file);
            let wild = bench.recorded("count", 64, 0, &[pointer], Dependency::None);
            let result = bench.run(&mut process, &[wild.dispatch.encode(header(true))]);
            assert_eq!(result, Err(WaitError::Faulted), "{name} {pointer:#x}");
            let fault = bench.queue.fault();
            let Some(Fault::Memory(fault, _)) = fault else { panic!("{pointer:#x}: {fault:?}") };
            assert_eq!(fault.exception.va & 0xffff_ffff_f000, pointer & 0xffff_ffff_f000, "{name}");
            gives_all_back(&kernel, process);
        }
    }
}

#[test]
fn wild_addresses_of_packets_end_in_events() {
    type Change = fn(&mut Packet, u64);
    // Kernel object, kernel arguments, completion signal.
    let changes: [Change; 3] = [
        |packet, address| (packet.0[8], packet.0[9]) = (address as u32, (address >> 32) as u32),
        |packet, address| (packet.0[10], packet.0[11]) = (address as u32, (address >> 32) as u32),
        |packet, address| (packet.0[14], packet.0[15]) = (address as u32, (address >> 32) as u32),
    ];
    let mut ends = Ends::default();
    for (name, _, file) in MACHINES {
        for change in changes {
            for address in HOSTILE {
                let kernel = kernel(Release::V6_12, name, Level::Strict, address);
                let mut process = open(&kernel);
                let mut bench = Bench::new(&mut process, file);
                let counter = staging(&mut process, 4096, "counter");
                let count = bench.recorded("count", 64, 0, &[counter.va()], Dependency::None);
                // The driver signals the completion of the last packet itself.
                let good = count.dispatch.encode(header(true));
                let mut packet = good;
                change(&mut packet, address);
                let result = bench.run(&mut process, &[packet, good]);
                ends.count(result, bench.queue.fault());
                gives_all_back(&kernel, process);
            }
        }
    }
    println!("{ends:?}");
    assert!(ends.memory > 80, "{ends:?}");
}
