//! IR, machine code and report of every sample kernel on three chips, as committed files.
//!
//! `DOORBELL_BLESS=1 cargo test -p doorbell-compiler --test golden` writes them after an intended change.

use doorbell_compiler::sample_kernels::SAMPLES;
use doorbell_compiler::{Options, compile};
use doorbell_isa::Target;
use std::path::Path;

#[test]
fn samples_compile_to_the_committed_text() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("DOORBELL_BLESS").is_some();
    let mut changed = Vec::new();
    for sample in SAMPLES {
        for target in [Target::Gfx1100, Target::Gfx1151, Target::Gfx1200] {
            let function = (sample.build)(target);
            let kernel = compile(&function, target, &Options::default()).unwrap();
            let text = format!("{function}\n{}\n{}", kernel.assembly(), kernel.report());
            let path = folder.join(format!("{}.{target}.txt", sample.name));
            if bless {
                std::fs::write(&path, &text).unwrap();
            } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
                changed.push(path);
            }
        }
    }
    assert!(changed.is_empty(), "differ from what is committed: {changed:?}");
}
