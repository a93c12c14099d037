//! The kernels of one token of a true-width mixture model: registers, occupancy, code, time to compile.
//!
//! `cargo run -p doorbell-kernels --example compile_time [gfx1100]`: a Qwen3-30B-A3B in Q4_K with Q6_K values and downs.

use doorbell_compiler::isa::Target;
use doorbell_compiler::{Options, compile};
use doorbell_core::quant::Type;
use doorbell_kernels::{
    Attention, AttentionShape, Bend, Combine, Embedding, ExpertsDown, ExpertsUp, Factor, Finish, Flash, Gate,
    Gemm, Group, Grouped, Halve, HeadFinish, HeadPart, Path, Projection, Recipe, Routing, Share, Stack,
};

fn factor(kind: Type) -> Factor {
    Factor { kind, scale: false, bias: false }
}

fn share(rows: u32, kind: Type, finish: Finish, head: Option<HeadPart>) -> Share {
    Share { rows, matrix: factor(kind), up: None, finish, head }
}

fn stack(kind: Type, rows: u32) -> Stack {
    Stack { factor: factor(kind), rows, stride: rows, own_scale: false }
}

fn attention_shape(page: u32) -> AttentionShape {
    AttentionShape {
        kv_heads: 4,
        group: 8,
        dims: [128, 128],
        cells: Type::F16,
        pages: [page; 2],
        window: None,
        cap: 0,
        sinks: false,
    }
}

/// The recipes of a layer and of head and embedding, for `batch` rows.
fn recipes(batch: u32) -> Vec<Recipe> {
    let page = 48 * 4 * 32 * 128 * 2;
    let head = |heads, norm, cache: bool| HeadPart {
        heads,
        dim: 128,
        norm,
        rope: norm.then_some((64, false)),
        cache: cache.then_some((Type::F16, page)),
    };
    let outputs = if batch <= 2 { 2 } else { 1 };
    let project = |cols, norm, parts: &[Share], then| {
        Recipe::Project(Projection { cols, batch, outputs, norm, parts: parts.to_vec(), then })
    };
    let experts = |kind| stack(kind, 768);
    let routing = Routing { experts: 128, top_k: 8, gate: Gate::Softmax, bias: false, renormalise: true };
    let attention =
        |spread| Recipe::Attend(Attention { shape: attention_shape(page as u32), spread, single: false });
    vec![
        Recipe::Embed(Embedding { kind: Type::Q4_K, cols: 2048 }),
        project(
            2048,
            true,
            &[
                share(4096, Type::Q4_K, Finish::Store, Some(head(32, true, false))),
                share(512, Type::Q4_K, Finish::Store, Some(head(4, true, true))),
                share(512, Type::Q6_K, Finish::Store, Some(head(4, false, true))),
            ],
            None,
        ),
        attention(false),
        attention(true),
        project(4096, false, &[share(2048, Type::Q4_K, Finish::Add, None)], None),
        project(2048, true, &[share(128, Type::F32, Finish::Store, None)], Some(routing)),
        Recipe::ExpertsUp(ExpertsUp {
            cols: 2048,
            top_k: 8,
            norm: true,
            gate: experts(Type::Q4_K),
            up: experts(Type::Q4_K),
            bend: Bend::Silu,
        }),
        Recipe::ExpertsDown(ExpertsDown { cols: 768, top_k: 8, down: stack(Type::Q6_K, 2048) }),
        project(
            2048,
            true,
            &[share(151_936, Type::Q6_K, Finish::Cap { scale: 1f32.to_bits(), cap: 0 }, None)],
            None,
        ),
    ]
}

/// The recipes of a prompt of 512 rows.
fn prompt() -> Vec<Recipe> {
    let page = 48 * 4 * 32 * 128 * 2;
    let path = Path::Half;
    let gemm = |outs, cols, kind, finish| {
        Recipe::Gemm(Gemm { path, matrix: factor(kind), up: None, cols, outs, finish, blocks: 2 })
    };
    let grouped = |matrix, up, cols| Recipe::Grouped(Grouped { path, matrix, up, cols, tile: 64 });
    let head = |heads, norm: bool, cached: bool| HeadPart {
        heads,
        dim: 128,
        norm,
        rope: norm.then_some((64, false)),
        cache: cached.then_some((Type::F16, page)),
    };
    let up = Some((stack(Type::Q4_K, 768), Bend::Silu));
    let norm = Some(1e-6f32.to_bits());
    vec![
        Recipe::Halve(Halve { cols: 2048, norm }),
        Recipe::Halve(Halve { cols: 4096, norm: None }),
        gemm(4096, 2048, Type::Q4_K, Finish::Store),
        gemm(512, 2048, Type::Q4_K, Finish::Store),
        gemm(512, 2048, Type::Q6_K, Finish::Store),
        gemm(2048, 4096, Type::Q4_K, Finish::Add),
        Recipe::Heads(HeadFinish {
            parts: vec![head(32, true, false), head(4, true, true), head(4, false, true)],
        }),
        Recipe::Flash(Flash { shape: attention_shape(page as u32) }),
        Recipe::Group(Group { experts: 128, top_k: 8, tile: 64 }),
        grouped(stack(Type::Q4_K, 768), up, 2048),
        grouped(stack(Type::Q6_K, 2048), None, 768),
        Recipe::Combine(Combine { width: 2048, top_k: 8 }),
    ]
}

/// Nanoseconds that this thread has had a processor.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Compiles and prints; answers milliseconds and bytes of code.
fn compiled(target: Target, recipes: &[Recipe]) -> (f64, u32) {
    let (mut total, mut code) = (0.0, 0);
    for recipe in recipes {
        let start = processor_time();
        let kernel = recipe.function(target).ok().and_then(|function| {
            compile(&function, target, &Options::default()).map_err(|error| eprintln!("{error}")).ok()
        });
        let time = (processor_time() - start) as f64 / 1e6;
        total += time;
        if let Some(kernel) = kernel {
            let report = kernel.report();
            code += report.code_bytes;
            println!(
                "{:>3} VGPRs {:>2} waves {:>5} LDS {:>6} code {:>4} dual {time:>6.1} ms  {}",
                report.vgprs,
                report.waves,
                report.lds_bytes,
                report.code_bytes,
                report.dual,
                recipe.name()
            );
        }
    }
    (total, code)
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_else(|| "gfx1100".to_owned());
    let Some(target) = Target::from_name(&name) else {
        eprintln!("{name} is no chip that is known");
        return;
    };
    for (what, recipes) in [("1 row", recipes(1)), ("8 rows", recipes(8)), ("512 rows", prompt())] {
        let (time, code) = compiled(target, &recipes);
        println!("{what}: {time:.0} ms of processor time, {code} bytes of code");
    }
}
