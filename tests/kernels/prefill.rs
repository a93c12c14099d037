//! Products of many rows by either matrix instruction, at the edges of tiles, against the definition on the same
//! activations; and which launches they take.

use crate::TARGETS;
use crate::check::{Case, check_plan, run};
use crate::grid::targets;
use crate::machine::Machine;
use crate::oracle::HEAP;
use doorbell_compiler::object::ArgumentValue;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape};
use doorbell_core::quant::{Activation, Type};
use doorbell_isa::Target;
use doorbell_kernels::{ActivationsI8, Cost, KernelSpec, Launch, MatrixPath, WEIGHT_TYPES};
use doorbell_soft::processor::{Level, Options};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};

/// As small as [`tiny::Shape::RAGGED`] can be here.
const RAGGED: tiny::Shape = tiny::Shape { layers: 1, experts: 5, ..tiny::Shape::RAGGED };

/// For types with blocks of 256.
const WIDE: tiny::Shape =
    tiny::Shape { hidden: 256, heads: 2, kv_heads: 1, head_dim: 128, ff: 768, expert_ff: 256, ..RAGGED };

const PATHS: [MatrixPath; 2] = [MatrixPath::F16, MatrixPath::I8];

fn shape(kind: Type) -> tiny::Shape {
    if kind.block_len() == 256 { WIDE } else { RAGGED }
}

fn products(op: &Op) -> bool {
    matches!(op, Op::Project(_) | Op::Experts(_))
}

/// All rows are outputs, so that no product is of few rows.
fn case(target: Target, rows: u32, path: MatrixPath) -> Case {
    Case { outputs: (0..rows).collect(), path: Some(path), ..Case::new(target, &[(0, rows)]) }
}

#[test]
fn every_type_on_both_paths() {
    // Floats have no path of codes.
    let coded = WEIGHT_TYPES.into_iter().filter(|ty| ty.block_len() > 1);
    for (number, kind) in coded.enumerate() {
        for path in PATHS {
            for target in targets(number) {
                let case = case(target, 33, path);
                let worst = check_plan(Family::Qwen3Moe, shape(kind), kind, &case, products);
                println!("{target} {kind} {path:?} {worst:?}");
            }
        }
    }
}

#[test]
fn codes_on_every_chip() {
    for target in TARGETS {
        for kind in [Type::Q8_0, Type::Q4_K, Type::Q6_K] {
            let case = case(target, 35, MatrixPath::I8);
            let worst = check_plan(Family::Qwen3Moe, shape(kind), kind, &case, products);
            println!("{target} {kind} {worst:?}");
        }
        // Gated products that are no experts'.
        let case = case(target, 40, MatrixPath::I8);
        let worst = check_plan(Family::Llama, RAGGED, Type::Q5_1, &case, products);
        println!("{target} {worst:?}");
    }
}

#[test]
fn rows_at_the_edges_of_tiles() {
    for (number, rows) in [32, 33, 127, 512, 513].into_iter().enumerate() {
        for path in PATHS {
            let kind = if number % 2 == 0 { Type::Q4_K } else { Type::Q8_0 };
            for target in targets(number) {
                let case = case(target, rows, path).fast();
                let worst = check_plan(Family::Qwen3Moe, shape(kind), kind, &case, products);
                println!("{target} {kind} {path:?} {rows} rows {worst:?}");
            }
        }
    }
}

#[test]
fn experts_in_tiles_of_every_width() {
    // Rows that an expert gets: 8, 15, 24, 40, 80.
    for (number, (experts, rows)) in [(13, 35), (7, 35), (5, 40), (5, 67), (5, 134)].into_iter().enumerate() {
        for path in PATHS {
            let shape = tiny::Shape { experts, ..RAGGED };
            for target in targets(number) {
                let case = case(target, rows, path);
                let experts = |op: &Op| matches!(op, Op::Experts(_));
                let worst = check_plan(Family::Qwen3Moe, shape, Type::Q5_0, &case, experts);
                println!("{target} {path:?} {worst:?}");
            }
        }
    }
}

/// Experts of several tiles and several workgroups a tile, beside those of none; and more experts than a workgroup has
/// work items.
#[test]
fn experts_that_share_rows_unevenly() {
    for (number, (experts, expert)) in [(13, Some(12)), (300, None)].into_iter().enumerate() {
        for target in targets(number) {
            let shape = tiny::Shape { experts, hidden: 160, ..RAGGED };
            let case = Case { expert, ..case(target, 37, MatrixPath::F16) };
            let experts = |op: &Op| matches!(op, Op::Experts(_));
            let worst = check_plan(Family::Qwen3Moe, shape, Type::Q5_0, &case, experts);
            println!("{target} {worst:?}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_schedule() {
    let bytes = tiny::model(Family::Qwen3Moe, RAGGED, Type::Q5_1, 2).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let plan = model.plan(Shape { rows: 70, outputs: 70 }, HeadResult::ArgMax, HEAP).unwrap();
    let strict = |seed| Options { level: Level::Strict, seed, ..Options::default() };
    let fast = |seed, threads, resident| Options {
        level: Level::Fast,
        seed,
        threads,
        resident,
        ..Options::default()
    };
    for target in TARGETS {
        for op in plan.ops.iter().filter(|op| products(op)) {
            let options = [strict(1), strict(5), fast(2, 1, 3), fast(3, 3, 32)];
            let runs = options.map(|options| {
                run(op, &model, &plan, &Case { options, ..case(target, 70, MatrixPath::I8) }).0
            });
            for (index, other) in runs.iter().enumerate().skip(1) {
                assert!(runs[0].same(other), "{} on {target}, schedule {index}", op.name());
            }
        }
    }
}

/// Rows in codes of eight bits: core's codes, f32 factors and sums; zeros where a row is padded.
#[test]
fn activations_in_codes() {
    let (rows, cols) = (3, 288);
    let mut random = Random::new(4);
    let x: Vec<f32> = (0..rows * cols).map(|_| random.normal()).collect();
    for target in TARGETS {
        let options = Options { level: Level::Strict, ..Options::default() };
        let mut machine = Machine::new(target, options);
        let words: Vec<u32> = x.iter().map(|x| x.to_bits()).collect();
        let from = machine.upload_words("x", &words);
        let to = machine.upload("codes", &vec![0xff; rows * 640]);
        machine.run(&Launch {
            spec: KernelSpec::ActivationsI8(ActivationsI8 { cols: cols as u32, norm: None }),
            groups: [rows as u32, 1, 1],
            arguments: [from, to].map(ArgumentValue::Buffer).to_vec(),
            waits: true,
            cost: Cost::default(),
        });
        let bytes = machine.read(to, rows * 640);
        for (row, x) in bytes.chunks(640).zip(x.chunks(cols)) {
            let mut x = x.to_vec();
            x.resize(512, 0.0);
            for (block, x) in x.chunks(32).enumerate() {
                let line = &row[block / 4 * 160..][..160];
                let number = |at: usize| f32::from_le_bytes(line[at..at + 4].try_into().unwrap());
                let codes = &line[block % 4 * 32..][..32];
                let mut expected = [0; 34];
                Activation::Q8_0.quantize(x, &mut expected).unwrap();
                assert_eq!(codes, &expected[2..], "{target} block {block}");
                let factor = x.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
                let found = number(128 + block % 4 * 4);
                assert!((found - factor).abs() <= 1e-6 * factor.max(1e-20), "{found} {factor}");
                let sum: i32 = codes.iter().map(|code| i32::from(code.cast_signed())).sum();
                let found = number(144 + block % 4 * 4);
                assert!((found - sum as f32 * factor).abs() <= 1e-4 * factor, "{found} {sum}");
            }
        }
    }
}
