//! Every matrix kernel compiles for every weight type: registers suffice, and LDS does.

use crate::check::full;
use crate::{KINDS, TARGETS};
use doorbell_compiler::{Options, compile};
use doorbell_kernels::{Bend, Factor, Finish, Gemm, Grouped, Recipe, Stack};

#[test]
fn matrix_kernels_of_every_type() {
    let mut number = 0;
    for kind in KINDS {
        let factor = Factor { kind, scale: false, bias: false };
        let stack = Stack { factor, rows: 256, stride: 256, own_scale: false };
        let mut recipes = Vec::new();
        for gated in [false, true] {
            let up = gated.then_some((factor, Bend::Silu));
            recipes.push(Recipe::Gemm(Gemm {
                matrix: factor,
                up,
                cols: 512,
                outs: 256,
                finish: Finish::Store,
            }));
            let up = gated.then_some((stack, Bend::Silu));
            let tiles = [16, 32, 48, 64];
            recipes.extend(tiles.map(|tile| Recipe::Grouped(Grouped { matrix: stack, up, cols: 512, tile })));
        }
        for recipe in recipes {
            number += 1;
            let targets = if full() { &TARGETS[..] } else { &TARGETS[number % 3..=number % 3] };
            for target in targets {
                let function = recipe.function(*target).unwrap();
                let kernel = compile(&function, *target, &Options::default());
                let kernel = kernel.unwrap_or_else(|error| panic!("{} for {target}: {error}", recipe.name()));
                assert!(kernel.resources.lds_bytes <= 64 << 10, "{}", recipe.name());
            }
        }
    }
}
