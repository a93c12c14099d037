//! The fake kernel against transcripts of real ones, which `cargo xtask vm` records and compares in QEMU.

use crate::fake::Fake;
use crate::machines::{GIB, Machine, Release};
use crate::transcript::transcript;

#[test]
fn the_fake_kernel_answers_what_real_kernels_without_a_gpu_answer() {
    let recorded = [
        (Release::V6_1, include_str!("../goldens/kernel-6.1.txt")),
        (Release::V6_1, include_str!("../goldens/kernel-6.1-built-in.txt")),
        (Release::V6_12, include_str!("../goldens/kernel-6.12.txt")),
        (Release::V6_18, include_str!("../goldens/kernel-6.18.txt")),
        (Release::V7_2, include_str!("../goldens/kernel-7.3.txt")),
    ];
    for (release, expected) in recorded {
        let fake = Fake::new(Machine::new(release, GIB, &[]));
        let got = transcript(&fake);
        for (expected, got) in expected.lines().zip(got.lines()) {
            // Where releases of a series differ the line has several answers: `call: one | other`.
            let (call, answers) = expected.split_once(": ").expect("call and answer");
            let allowed = answers.split(" | ").any(|answer| got == format!("{call}: {answer}"));
            assert!(allowed, "{release:?}: {got}, expected {expected}");
        }
        assert_eq!(got.lines().count(), expected.lines().count(), "{release:?}");
    }
}
