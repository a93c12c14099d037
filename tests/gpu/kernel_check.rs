//! Kernels that compute something else are found, named and done without; what was found is not looked for again.

use crate::bench::{
    CHIPS, FIRST, HEAP, PAGES, end, nmse, open_with, prompt, settings, soft, step, with_model,
};
use crate::cpu_driver::CpuDriverFallback;
use alloc::collections::BTreeMap;
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::{GpuBackend, KernelCheckCache};
use doorbell_kfd::sys::Window;
use doorbell_soft::kernel::SoftKernel;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

/// KernelCheckCache in memory.
#[derive(Default)]
pub(crate) struct Book(BTreeMap<u64, f64>);

impl KernelCheckCache for Book {
    fn get(&self, key: u64) -> Option<f64> {
        self.0.get(&key).copied()
    }

    fn insert(&mut self, key: u64, error: f64) {
        assert!(self.0.insert(key, error).is_none(), "checked twice");
    }
}

/// The code of a kernel in device memory: an allocation, where in it, and bytes.
fn code(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>, name: &str) -> (Window, usize, usize) {
    let process = backend.process().unwrap();
    let symbol: String = name.chars().take(40).collect();
    let entries = process.allocations().entries();
    let named = entries.iter().filter(|entry| entry.name.as_str().starts_with(&symbol));
    let code = named.min_by_key(|entry| entry.name.as_str().len()).unwrap();
    let holds = |va: u64, bytes: u64| (va..va + bytes).contains(&code.va);
    let buffer = entries.iter().find(|entry| entry.handle.is_some() && holds(entry.va, entry.bytes)).unwrap();
    let window = kernel.backing(buffer.handle.unwrap().0).unwrap();
    (window, (code.va - buffer.va) as usize, code.bytes as usize)
}

/// Has a kernel end before it does anything, as damaged memory might.
pub(crate) fn damage(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>, name: &str) {
    const END: u32 = 0xbfb0_0000;
    let (window, at, _) = code(kernel, backend, name);
    window.write(at, &END.to_le_bytes());
}

/// Has a kernel do what a shorter one does.
pub(crate) fn replace(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>, name: &str, by: &str) {
    let (from, start, bytes) = code(kernel, backend, by);
    let (to, at, room) = code(kernel, backend, name);
    let mut words = vec![0; bytes.min(room)];
    from.read(start, &mut words);
    to.write(at, &words);
}

pub(crate) fn open<'k, 'm, 'a>(kernel: &'k SoftKernel, model: &'m Model<'a>) -> GpuBackend<'k, 'm, 'a> {
    open_for(kernel, model, 20)
}

fn open_for<'k, 'm, 'a>(kernel: &'k SoftKernel, model: &'m Model<'a>, rows: u32) -> GpuBackend<'k, 'm, 'a> {
    let rest = CpuDriverFallback::new(model, PAGES, KvType::F16, 1, HEAP);
    open_with(kernel, model, settings(rows), Some(Box::new(rest))).unwrap()
}

/// The logits of a prompt of so many rows and of one token more.
fn logits<B: Backend>(model: &Model<'_>, backend: &mut B, rows: u32) -> Vec<f32> {
    let tokens = prompt(model, rows + 1);
    let mut logits = step(model, backend, &tokens[..rows as usize], 0).unwrap();
    logits.extend(step(model, backend, &tokens[rows as usize..], rows).unwrap());
    logits
}

/// Kernels whose names begin in one of these ways are spoilt, one way after the other: they are found, named and done
/// without, and the next backend knows it without running them. Logits are then off by `most` at most.
fn spoilt_kernels_are_found(chip: &str, model: &Model<'_>, rows: u32, most: f64, families: &[&str]) {
    let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
    let expected = logits(model, &mut reference, rows);
    let plan = model.plan(Shape { rows, outputs: rows }, HeadResult::Logits, HEAP).unwrap();
    for family in families {
        let kernel = soft(chip, Level::Fast);
        let mut backend = open_for(&kernel, model, rows);
        let names = backend.kernel_names().filter(|name| name.starts_with(family));
        let names: Vec<String> = names.map(str::to_owned).collect();
        names.iter().for_each(|name| damage(&kernel, &backend, name));
        let mut book = Book::default();
        backend.check_kernels(&mut book, HEAP).unwrap();
        let messages: Vec<_> = backend.wrong_kernels().iter().map(ToString::to_string).collect();
        assert!(!messages.is_empty() && messages.len() < book.0.len(), "{family}: {names:?}: {messages:?}");
        assert!(messages.iter().all(|line| line.contains(" runs on the CPU: ")), "{messages:?}");
        let named = |line: &String| names.iter().any(|name| line.contains(name));
        assert!(messages.iter().all(named), "{messages:?}");
        backend.reserve(&plan).unwrap();
        let error = nmse(&logits(model, &mut backend, rows), &expected);
        assert!(error < most, "without {family} on {chip}: NMSE {error:e}");
        end(&kernel, backend, family);
        // The next one knows it without running it.
        let kernel = soft(chip, Level::Fast);
        let mut second = open_for(&kernel, model, rows);
        second.check_kernels(&mut book, HEAP).unwrap();
        assert_eq!(second.wrong_kernels().len(), messages.len());
        end(&kernel, second, family);
    }
}

#[test]
fn a_wrong_kernel_is_named_and_done_without() {
    let bytes = tiny::model(Family::Qwen3, tiny::Shape::WIDE, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        let kernel = soft(CHIPS[1], Level::Fast);
        let mut backend = open(&kernel, model);
        let gpu = backend.process().unwrap().device(FIRST).gpu_id();
        let ran = || kernel.report(gpu).unwrap().instructions;
        let mut book = Book::default();
        backend.check_kernels(&mut book, HEAP).unwrap();
        assert!(backend.wrong_kernels().is_empty() && book.0.len() > 8, "{:?}", backend.wrong_kernels());
        let before = ran();
        backend.check_kernels(&mut book, HEAP).unwrap();
        assert_eq!(ran(), before, "known kernels are run again");
        end(&kernel, backend, "right kernels");
        spoilt_kernels_are_found(CHIPS[1], model, 20, 5e-4, &["attend_", "embed_", "project_1x"]);
    });
}

/// Those of prompts are checked as well: on gfx12 they multiply codes of eight bits.
#[test]
fn wrong_kernels_of_prompts_are_found() {
    let bytes = tiny::model(Family::Qwen3Moe, tiny::Shape::NARROW, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        // Rows in eight bits may choose another expert.
        let ways = ["gemm_iu8_", "grouped_iu8_", "quantize_", "flash_"];
        spoilt_kernels_are_found("gfx1200", model, 70, 2e-2, &ways);
        spoilt_kernels_are_found(CHIPS[0], model, 70, 5e-4, &["gemm_", "grouped_"]);
    });
}

/// A kernel of chains that picks the right token and does not hand it on is found, and chains are done without.
#[test]
fn what_a_chain_hands_on_is_checked() {
    let bytes = tiny::model(Family::Qwen3, tiny::Shape::WIDE, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::ArgMax, HEAP).unwrap();
        for spoilt in [false, true] {
            let kernel = soft(CHIPS[1], Level::Fast);
            let mut backend = open(&kernel, model);
            backend.reserve(&plan).unwrap();
            let feeding = backend.kernel_names().find(|name| name.ends_with("_feeds")).unwrap().to_owned();
            if spoilt {
                replace(&kernel, &backend, &feeding, feeding.strip_suffix("_feeds").unwrap());
            }
            backend.check_kernels(&mut (), HEAP).unwrap();
            let messages: Vec<_> = backend.wrong_kernels().iter().map(ToString::to_string).collect();
            assert_eq!(messages.len(), usize::from(spoilt), "{messages:?}");
            assert!(messages.iter().all(|line| line.contains(&feeding)), "{messages:?}");
            backend.reserve(&plan).unwrap();
            assert_eq!(backend.max_steps(&plan) > 1, !spoilt);
            end(&kernel, backend, "chains");
        }
    });
}
