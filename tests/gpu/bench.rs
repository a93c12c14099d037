//! Shared by the tests: software GPUs, models, steps.

use doorbell_core::backend::{Backend, KvType, Output};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, PageId, PageSpan, PageTables, Plan, RowRun, Shape, StateId};
use doorbell_core::token::TokenId;
use doorbell_gpu::{BoxedCpuFallback, Delay, GpuBackend, GpuError, Placement, Settings};
use doorbell_kfd::process::{DeviceIndex, Process};
use doorbell_kfd::topology::Topology;
use doorbell_soft::kernel::{Chip, Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::{Level, Options};
use std::path::Path;

pub(crate) const HEAP: Heap<'static> = &Global;
pub(crate) const FIRST: DeviceIndex = DeviceIndex(0);
pub(crate) const CHIPS: [&str; 2] = ["gfx1100", "gfx1151"];
/// KV pages per group.
pub(crate) const PAGES: u32 = 4;

/// Recurrent states of tests' sequences.
pub(crate) const STATES: [StateId; 9] = [
    StateId(7),
    StateId(2),
    StateId(0),
    StateId(3),
    StateId(1),
    StateId(6),
    StateId(4),
    StateId(5),
    StateId(8),
];

/// Time as a number: every delay is a step of it.
struct Clock(u64);

impl embedded_hal::delay::DelayNs for Clock {
    fn delay_ns(&mut self, ns: u32) {
        self.0 += u64::from(ns);
    }
}

pub(crate) fn clock() -> Delay {
    Box::new(Clock(0))
}

pub(crate) fn machine(chip: Chip, level: Level) -> SoftKernel {
    let options = Options { level, patience: 1_000_000, ..Options::default() };
    SoftKernel::new(Machine::new(Release::V6_12, 64 << 30, &[chip]), &options).unwrap()
}

pub(crate) fn soft(name: &str, level: Level) -> SoftKernel {
    machine(chip(name).unwrap(), level)
}

pub(crate) fn settings(rows: u32) -> Settings {
    let plain = Settings::new(PAGES, KvType::F16, Shape { rows, outputs: rows });
    Settings { states: STATES.len() as u32, ..plain }
}

pub(crate) fn open<'k, 'm, 'a>(
    kernel: &'k SoftKernel,
    model: &'m Model<'a>,
    settings: Settings,
) -> Result<GpuBackend<'k, 'm, 'a>, GpuError> {
    open_with(kernel, model, settings, None)
}

pub(crate) fn open_with<'k, 'm, 'a>(
    kernel: &'k SoftKernel,
    model: &'m Model<'a>,
    settings: Settings,
    fallback: Option<BoxedCpuFallback<'m>>,
) -> Result<GpuBackend<'k, 'm, 'a>, GpuError> {
    let process = Process::open_all(kernel, &Topology::scan(kernel).unwrap()).unwrap();
    let mut backend = GpuBackend::new(process, FIRST, model, settings, clock(), fallback, HEAP)?;
    backend.reserve_states(STATES.len() as u32)?;
    Ok(backend)
}

/// Names and bytes of the tiny models whose logits llama.cpp has computed, one of every family and more.
pub(crate) fn goldens() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join("model");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut models: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "gguf"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    models.sort();
    models
}

pub(crate) fn with_model<T>(bytes: &[u8], test: impl FnOnce(&Model<'_>) -> T) -> T {
    let gguf = Gguf::parse(bytes, HEAP).unwrap();
    test(&Model::new(&gguf, HEAP).unwrap())
}

pub(crate) fn prompt(model: &Model<'_>, len: u32) -> Vec<TokenId> {
    (0..len).map(|i| TokenId((i * i * 31 + i * 7 + 3) % model.vocabulary)).collect()
}

/// Runs tokens of one sequence from a position on, with a plan of their number; the logits of all rows.
pub(crate) fn step<B: Backend>(
    model: &Model<'_>,
    backend: &mut B,
    tokens: &[TokenId],
    position: u32,
) -> Result<Vec<f32>, B::Error> {
    let rows = tokens.len() as u32;
    let plan = model.plan(Shape { rows, outputs: rows }, HeadResult::Logits, HEAP).unwrap();
    let outputs: Vec<u32> = (0..rows).collect();
    run(model, backend, &plan, (tokens, position), &outputs)
}

/// Runs a batch of one sequence whose pages lie backwards.
pub(crate) fn run<B: Backend>(
    model: &Model<'_>,
    backend: &mut B,
    plan: &Plan<'_>,
    (tokens, position): (&[TokenId], u32),
    outputs: &[u32],
) -> Result<Vec<f32>, B::Error> {
    let runs = [RowRun { sequence: 0, first_row: 0, rows: tokens.len() as u32, position }];
    let pages: Vec<PageId> = (0..PAGES).rev().map(PageId).collect();
    let spans = vec![PageSpan { start: 0, len: PAGES }; model.groups.len()];
    let tables = PageTables { pages: &pages, spans: &spans, groups: model.groups.len(), states: &STATES };
    if position == 0 {
        backend.reserve_states(STATES.len() as u32)?;
    }
    backend.submit(plan, &Batch { tokens, runs: &runs, outputs, tables })?;
    loop {
        match backend.poll()? {
            Some(Output::Logits(logits)) => return Ok(logits.to_vec()),
            Some(_) => panic!("the plan asked for logits"),
            None => {}
        }
    }
}

/// Mean square error relative to the mean square of what was expected.
pub(crate) fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / pairs().map(|(_, b)| b * b).sum::<f64>()
}

/// Ends a backend and requires that nothing is left and nothing was found.
pub(crate) fn end(kernel: &SoftKernel, backend: GpuBackend<'_, '_, '_>, what: &str) {
    let gpu = backend.process().unwrap().device(FIRST).gpu_id();
    backend.close().unwrap();
    assert_eq!(kernel.held(), (0, 0, 0), "{what}");
    assert_eq!(kernel.report(gpu).unwrap().findings, [], "{what}");
}

pub(crate) fn placed(settings: Settings, placement: Placement) -> Settings {
    Settings { placement, ..settings }
}
