//! Measures whole steps of a model: one prompt, then single tokens, by wall clock and by processor time.
//!
//! `cargo run --release -p doorbell-cpu --example tokens MODEL [THREADS] [PROMPT] [TOKENS] [KV]`. Processor time does not
//! change on a busy machine; `doorbell bench` is the measure.

#[path = "clock/seconds.rs"]
mod clock;

use doorbell_core::backend::{Backend, KvType};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Batch, HeadResult, PAGE_TOKENS, PageId, PageSpan, PageTables, Plan, RowRun, Shape,
};
use doorbell_core::token::TokenId;
use doorbell_cpu::backend::CpuBackend;
use std::time::Instant;

/// Seconds this process has run on all its threads.
fn cpu_time() -> f64 {
    clock::seconds(clock::ClockId::ProcessCPUTime)
}

/// Runs one step of consecutive rows of a single sequence.
fn step(model: &Model<'_>, backend: &mut CpuBackend<'_, '_>, plan: &Plan<'_>, rows: u32, position: u32) {
    let tokens: Vec<TokenId> = (0..rows).map(|i| TokenId((position + i) * 7919 % model.vocabulary)).collect();
    let pages: Vec<PageId> = (0..(position + rows).div_ceil(PAGE_TOKENS as u32)).map(PageId).collect();
    let spans = vec![PageSpan { start: 0, len: pages.len() as u32 }; model.groups.len()];
    let tables = PageTables { pages: &pages, spans: &spans, groups: model.groups.len(), states: &[] };
    let runs = [RowRun { sequence: 0, first_row: 0, rows, position }];
    let batch = Batch { tokens: &tokens, runs: &runs, outputs: &[rows - 1], tables };
    backend.submit(plan, &batch).expect("a step");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u32| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (threads, prompt, count) = (number(1, 2), number(2, 512), number(3, 64));
    let heap: Heap<'_> = &Global;
    let bytes = std::fs::read(arguments.first().expect("a model")).expect("readable");
    let gguf = Gguf::parse(&bytes, heap).expect("GGUF");
    let model = Model::new(&gguf, heap).expect("a model");
    let pages = (prompt + 3 * count).div_ceil(PAGE_TOKENS as u32) + 1;
    let kv: KvType = arguments.get(4).map_or(Ok(KvType::F16), |name| name.parse()).expect("f16, f32 or q8_0");
    let mut backend = CpuBackend::new(&model, pages, kv, threads as usize, heap).expect("a backend");
    let shape = |rows| Shape { rows, outputs: 1 };
    let whole = model.plan(shape(prompt), HeadResult::Logits, heap).expect("a plan");
    let single = model.plan(shape(1), HeadResult::Logits, heap).expect("a plan");
    for _ in 0..3 {
        let (wall, cpu) = (Instant::now(), cpu_time());
        step(&model, &mut backend, &whole, prompt, 0);
        let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_time() - cpu);
        let rate = f64::from(prompt) / wall;
        print!("prompt {:7.1} ms, {:7.1} ms of processor, {rate:7.1} tok/s; ", wall * 1e3, cpu * 1e3);
        let (wall, cpu) = (Instant::now(), cpu_time());
        for position in prompt..prompt + count {
            step(&model, &mut backend, &single, 1, position);
        }
        let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_time() - cpu);
        let (each, rate) = (1e3 / f64::from(count), f64::from(count) / wall);
        println!("token {:6.2} ms, {:6.2} ms of processor, {rate:6.1} tok/s", wall * each, cpu * each);
    }
}
