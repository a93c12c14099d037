//! Code objects of one and of many kernels, as our own loader reads them.

use doorbell_compiler::ir::Builder;
use doorbell_compiler::object::{CODE_END, PADDING_WORDS};
use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Kernel, ObjectError, Options, compile, object};
use doorbell_isa::Target;
use doorbell_kfd::code::Object;

const TARGETS: [Target; 3] = [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200];
const BASE: u64 = 0x10_0000;

fn all(target: Target) -> Vec<Kernel> {
    let options = Options::default();
    SAMPLES.iter().map(|sample| compile(&(sample.build)(target), target, &options).expect("valid")).collect()
}

/// Every kernel of a file must be found by name with its resources, its code at the entry.
fn check(file: &[u8], kernels: &[Kernel]) {
    let target = kernels[0].target;
    let parsed = Object::parse(file, target.elf_machine()).expect("valid");
    let mut image = vec![0; usize::try_from(parsed.image_bytes()).expect("valid")];
    parsed.image(BASE, &mut image).expect("valid");
    let loaded: Vec<_> = parsed.kernels(BASE).map(|kernel| kernel.expect("valid")).collect();
    assert_eq!(loaded.len(), kernels.len());
    for kernel in kernels {
        let name = kernel.function.name.as_bytes();
        let (_, found) = loaded.iter().find(|(found, _)| *found == name).expect("named");
        assert_eq!(found.entry % 256, 0);
        assert!(found.is_wave32);
        assert_eq!(found.group_bytes, kernel.resources.lds_bytes);
        assert_eq!(found.kernarg_bytes, kernel.resources.kernarg_bytes);
        let lines = found.rsrc3 >> 4;
        assert!(lines > 0 && 128 * (lines - 1) < kernel.resources.code_bytes);
        let at = usize::try_from(found.entry - BASE).expect("valid");
        let words: Vec<u32> =
            image[at..].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        assert_eq!(words[..kernel.words.len()], kernel.words);
        // Prefetch reads other code or padding, never beyond the image.
        assert!(words.len() >= kernel.words.len() + PADDING_WORDS);
    }
}

#[test]
fn single_and_joint_files_load() {
    for target in TARGETS {
        let kernels = all(target);
        check(&object(&kernels).unwrap(), &kernels);
        for kernel in kernels {
            check(&kernel.object(), core::slice::from_ref(&kernel));
        }
    }
}

#[test]
fn joint_files_hold_hundreds_of_kernels() {
    let target = Target::Gfx1200;
    let options = Options::default();
    let build = |index| compile(&Builder::new(&format!("k{index}"), 32).finish(), target, &options).unwrap();
    let kernels: Vec<Kernel> = (0..300).map(build).collect();
    let file = object(&kernels).unwrap();
    check(&file, &kernels);
    let end = CODE_END.to_le_bytes();
    assert!(file.windows(4 * PADDING_WORDS).any(|window| window.chunks(4).all(|word| word == end)));
}

#[test]
fn kernels_that_cannot_share_a_file() {
    assert_eq!(object(&[]), Err(ObjectError::Empty));
    let [first, second] = [Target::Gfx1100, Target::Gfx1151].map(|target| all(target).swap_remove(0));
    let name = first.function.name.clone();
    assert_eq!(object(&[first.clone(), first.clone()]), Err(ObjectError::Name(name)));
    let found = object(&[first, second]);
    assert_eq!(found, Err(ObjectError::Target { expected: Target::Gfx1100, found: Target::Gfx1151 }));
}
