//! The software kernel against the transcripts of real kernels without a GPU, which `cargo xtask vm` records.

#[path = "../../drivers/kfd/tests/driver/transcript.rs"]
#[expect(unreachable_pub, reason = "shared with the driver's tests")]
mod transcript;

use doorbell_soft::kernel::{Machine, Release, SoftKernel};
use doorbell_soft::processor::Options;

#[test]
fn the_software_kernel_answers_what_real_kernels_answer() {
    let recorded = [
        (Release::V6_1, include_str!("../../drivers/kfd/tests/goldens/kernel-6.1.txt")),
        (Release::V6_1, include_str!("../../drivers/kfd/tests/goldens/kernel-6.1-built-in.txt")),
        (Release::V6_12, include_str!("../../drivers/kfd/tests/goldens/kernel-6.12.txt")),
        (Release::V7_2, include_str!("../../drivers/kfd/tests/goldens/kernel-7.3.txt")),
    ];
    let mut wrong = Vec::new();
    for (release, expected) in recorded {
        let soft = SoftKernel::new(Machine::new(release, 1 << 30, &[]), &Options::default()).unwrap();
        let got = transcript::transcript(&soft);
        for (expected, got) in expected.lines().zip(got.lines()) {
            // where releases of a series differ the line has several answers: `call: one | other`
            let (call, answers) = expected.split_once(": ").unwrap();
            if !answers.split(" | ").any(|answer| got == format!("{call}: {answer}")) {
                wrong.push(format!("{release:?}: {got}, expected {expected}"));
            }
        }
        assert_eq!(got.lines().count(), expected.lines().count(), "{release:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
