//! Untrusted bytes for the software GPU: code objects, rings, instruction streams. A fault is allowed, a panic is not.
//!
//! The three functions are also the fuzz targets `elf`, `pm4` and `inst`, which choose the bytes.

use std::sync::Arc;

use doorbell_isa::Target;
use doorbell_kfd::sys::{MapAddress, Shared, Window};
use doorbell_soft::code::{CodeObject, Descriptor, Launch};
use doorbell_soft::command::{CommandProcessor, Queue, QueueKind};
use doorbell_soft::memory::{Region, Space};
use doorbell_soft::processor::{Dispatch, Engine, Level, Options};

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];
/// Addresses of the memories, small so that inputs can contain them.
const RING: u64 = 0x1_0000;
const POINTERS: u64 = 0x2_0000;
const DATA: u64 = 0x3_0000;
const CODE: u64 = 0x10_0000;
const BYTES: usize = 0x4000;

fn memory(space: &mut Space, base: u64, len: usize, name: &str) -> Arc<Window> {
    let shared = Shared::new(len.max(1)).expect("host memory");
    let window = Arc::new(shared.map(0, len.max(1), MapAddress::Anywhere).expect("host memory"));
    assert!(space.add(Region::new(base, len as u64, name, window.clone())), "{name} overlaps");
    window
}

/// The first byte chooses chip, level and seed.
fn choices(byte: u8) -> (Target, Options) {
    let level = if byte & 4 == 0 { Level::Fast } else { Level::Strict };
    let seed = u64::from(byte >> 3);
    let options = Options { level, seed, budget: 5000, patience: 2000, ..Options::default() };
    (TARGETS[usize::from(byte % 4 % 3)], options)
}

/// A code object: reads it, then launches what it says are its kernels.
pub(crate) fn elf(bytes: &[u8]) {
    let Ok(object) = CodeObject::parse(bytes) else { return };
    let mut space = Space::new();
    let code = memory(&mut space, CODE, object.image.len().max(64), "code");
    code.write(0, &object.relocated(CODE));
    memory(&mut space, DATA, BYTES, "data");
    for (number, kernel) in object.kernels.iter().take(4).enumerate() {
        let start = usize::try_from(kernel.descriptor).unwrap_or(usize::MAX);
        let Ok(descriptor) = Descriptor::parse(object.image.get(start..).unwrap_or_default()) else {
            continue;
        };
        let launch =
            Launch { grid: [70, 1, 1], group: [64, 1, 1], kernarg: DATA, packet: DATA, ..Launch::default() };
        let address = CODE.wrapping_add(kernel.descriptor);
        let Ok(dispatch) = descriptor.dispatch(address, &launch, object.target) else { continue };
        let options = choices((number as u8) << 2).1;
        let _ = Engine::new(object.target, options).run(&[dispatch], &mut space);
    }
}

/// A stream of instructions, by a group of two waves.
pub(crate) fn inst(bytes: &[u8]) {
    let Some((first, code)) = bytes.split_first() else { return };
    let (target, options) = choices(*first);
    let mut space = Space::new();
    let window = memory(&mut space, CODE, code.len().max(4), "code");
    window.write(0, code);
    memory(&mut space, DATA, BYTES, "data");
    let dispatch = Dispatch {
        name: "hostile".into(),
        entry: CODE,
        grid: [60, 1, 1],
        group: [60, 1, 1],
        lds: 1024,
        scratch: 256,
        vgprs: 64,
        user: vec![DATA as u32, 0, 0x100, 0x40],
        user_defined: 15,
        ids: [true; 3],
        mode: 0x3f0,
    };
    let _ = Engine::new(target, options).run(&[dispatch], &mut space);
}

/// A ring of any kind; the second byte says which.
pub(crate) fn pm4(bytes: &[u8]) {
    let [first, kind, words @ ..] = bytes else { return };
    let (target, options) = choices(*first);
    let kind = [QueueKind::Pm4, QueueKind::Aql, QueueKind::Sdma][usize::from(kind % 3)];
    let words = &words[..words.len().min(BYTES)];
    let mut space = Space::new();
    let ring = memory(&mut space, RING, BYTES, "ring");
    let pointers = memory(&mut space, POINTERS, BYTES, "pointers");
    // What the packets point at is hostile, too.
    let data = memory(&mut space, DATA, BYTES, "data");
    ring.write(0, words);
    data.write(0, words);
    let unit = match kind {
        QueueKind::Pm4 => 4,
        QueueKind::Sdma => 1,
        QueueKind::Aql => 64,
    };
    let written = (words.len() / unit) as u64;
    pointers.store64(0x38, written);
    let mut queue = Queue::new(1, kind, RING, BYTES as u64, [POINTERS + 0x80, POINTERS + 0x38]);
    queue.rung = Some(written);
    let mut processor = CommandProcessor::new(target, options);
    for _ in 0..3 {
        processor.run(&mut queue, &mut space);
    }
}

#[cfg(test)]
mod tests {
    use super::{elf, inst, pm4};
    use doorbell_soft::memory::Random;
    use std::path::Path;

    const OBJECT: &[u8] = include_bytes!("../goldens/soft/gfx1100-driver.co");

    fn each_kept(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/kept").join(target);
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }

    #[test]
    fn damaged_code_objects_are_survived() {
        each_kept("elf", elf);
        for len in (0..OBJECT.len()).step_by(61) {
            elf(&OBJECT[..len]);
        }
        let mut random = Random::new(5);
        for _ in 0..400 {
            let mut file = OBJECT.to_vec();
            for _ in 0..=random.below(6) {
                let at = random.below(file.len());
                file[at] = random.bits() as u8;
            }
            elf(&file);
        }
    }

    #[test]
    fn random_instructions_are_survived() {
        each_kept("inst", inst);
        let mut random = Random::new(6);
        for _ in 0..400 {
            let mut bytes = vec![random.bits() as u8];
            let start = random.below(OBJECT.len() - 512) & !3;
            bytes.extend_from_slice(&OBJECT[start..start + 512]);
            for _ in 0..=random.below(20) {
                let at = random.below(bytes.len());
                bytes[at] = random.bits() as u8;
            }
            inst(&bytes);
        }
    }

    #[test]
    fn random_rings_are_survived() {
        each_kept("pm4", pm4);
        let mut random = Random::new(7);
        for _ in 0..2000 {
            let mut bytes: Vec<u8> = (0..2 + random.below(256)).map(|_| random.bits() as u8).collect();
            // Headers that some queue knows.
            for at in (2..bytes.len().saturating_sub(4)).step_by(16) {
                let known = [0x10, 0x15, 0x37, 0x3c, 0x3f, 0x46, 0x49, 0x58, 0x76][random.below(9)];
                bytes[at..at + 4].copy_from_slice(&[2, known, random.below(12) as u8, 0xc0]);
            }
            pm4(&bytes);
        }
    }
}
