//! Every matrix kernel compiles for every weight type: registers suffice without scratch, and LDS does.

use crate::check::full;
use crate::{KINDS, TARGETS};
use doorbell_compiler::{Options, compile};
use doorbell_core::quant::Type;
use doorbell_kernels::{Bend, Factor, Finish, Gemm, Grouped, Path, Recipe, Stack};

#[test]
fn matrix_kernels_of_every_type() {
    let (mut number, mut failures) = (0, 0);
    for kind in KINDS {
        let factor = Factor { kind, scale: false, bias: false };
        let stack = Stack { factor, rows: 256, stride: 256, own_scale: false };
        let floats = matches!(kind, Type::F32 | Type::F16 | Type::BF16);
        let paths = if floats { &[Path::Half][..] } else { &[Path::Half, Path::Byte] };
        let mut recipes = Vec::new();
        for (path, gated) in paths.iter().flat_map(|path| [(*path, false), (*path, true)]) {
            let up = gated.then_some((factor, Bend::Silu));
            let (matrix, finish) = (factor, Finish::Store);
            for blocks in [1, 2] {
                recipes.push(Recipe::Gemm(Gemm { path, matrix, up, cols: 512, outs: 256, finish, blocks }));
            }
            let up = gated.then_some((stack, Bend::Silu));
            for tile in [16, 32, 64, 128] {
                recipes.push(Recipe::Grouped(Grouped { path, matrix: stack, up, cols: 512, tile }));
            }
        }
        for recipe in recipes {
            number += 1;
            let targets = if full() { &TARGETS[..] } else { &TARGETS[number % 3..=number % 3] };
            for target in targets {
                let function = recipe.function(*target).unwrap();
                let kernel = compile(&function, *target, &Options::default());
                let Ok(kernel) = kernel else {
                    println!("{} for {target}: {}", recipe.name(), kernel.unwrap_err());
                    failures += 1;
                    continue;
                };
                let resources = &kernel.resources;
                println!("{target} {} {} VGPRs {} LDS", recipe.name(), resources.vgprs, resources.lds_bytes);
                assert!(resources.lds_bytes <= 64 << 10, "{}", recipe.name());
            }
        }
    }
    assert!(failures == 0, "{failures} kernels do not compile");
}
