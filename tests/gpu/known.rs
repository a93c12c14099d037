//! Kernels that compute something else are found, named and done without; what was found is not looked for again.

use crate::bench::{
    CHIPS, FIRST, HEAP, PAGES, end, nmse, open_with, prompt, settings, soft, step, with_model,
};
use crate::on_cpu::OnCpu;
use alloc::collections::BTreeMap;
use doorbell_core::backend::{Backend as _, KvType};
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Shape};
use doorbell_core::quant::Type;
use doorbell_core::reference::{Products, Reference};
use doorbell_gpu::{GpuBackend, Verdicts};
use doorbell_soft::kernel::SoftKernel;
use doorbell_soft::processor::Level;
use doorbell_tests::tiny::{self, Family};

/// Verdicts in memory.
#[derive(Default)]
pub(crate) struct Book(BTreeMap<u64, f64>);

impl Verdicts for Book {
    fn known(&self, key: u64) -> Option<f64> {
        self.0.get(&key).copied()
    }

    fn note(&mut self, key: u64, error: f64) {
        assert!(self.0.insert(key, error).is_none(), "checked twice");
    }
}

/// Has a kernel end before it does anything, as damaged memory might.
pub(crate) fn damage(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>, name: &str) {
    const END: u32 = 0xbfb0_0000;
    let process = backend.process().unwrap();
    let symbol: String = name.chars().take(24).collect();
    let entries = process.ledger().entries();
    let code = entries.iter().find(|entry| entry.name.as_str().starts_with(&symbol)).unwrap();
    let holds = |va: u64, bytes: u64| (va..va + bytes).contains(&code.va);
    let buffer = entries.iter().find(|entry| entry.handle.is_some() && holds(entry.va, entry.bytes)).unwrap();
    let window = kernel.backing(buffer.handle.unwrap().0).unwrap();
    window.write((code.va - buffer.va) as usize, &END.to_le_bytes());
}

pub(crate) fn open<'k, 'm, 'a>(kernel: &'k SoftKernel, model: &'m Model<'a>) -> GpuBackend<'k, 'm, 'a> {
    let rest = OnCpu::new(model, PAGES, KvType::F16, 1, HEAP);
    open_with(kernel, model, settings(20), Some(Box::new(rest))).unwrap()
}

#[test]
fn a_wrong_kernel_is_named_and_done_without() {
    let bytes = tiny::model(Family::Qwen3, tiny::Shape::WIDE, Type::Q8_0, 3).to_bytes();
    with_model(&bytes, |model| {
        let tokens = prompt(model, 21);
        let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
        let mut expected = step(model, &mut reference, &tokens[..20], 0).unwrap();
        expected.extend(step(model, &mut reference, &tokens[20..], 20).unwrap());
        let plan = model.plan(Shape { rows: 20, outputs: 20 }, HeadResult::Logits, HEAP).unwrap();
        let kernel = soft(CHIPS[1], Level::Fast);
        let mut backend = open(&kernel, model);
        let gpu = backend.process().unwrap().device(FIRST).gpu_id();
        let ran = || kernel.report(gpu).unwrap().instructions;
        let mut book = Book::default();
        backend.check_kernels(&mut book, HEAP).unwrap();
        assert!(backend.wrong().is_empty() && book.0.len() > 8, "{:?}", backend.wrong());
        let before = ran();
        backend.check_kernels(&mut book, HEAP).unwrap();
        assert_eq!(ran(), before, "known kernels are run again");
        end(&kernel, backend, "right kernels");

        for family in ["attend_", "embed_", "project_1x"] {
            let kernel = soft(CHIPS[1], Level::Fast);
            let mut backend = open(&kernel, model);
            let names = backend.kernel_names().filter(|name| name.starts_with(family));
            let names: Vec<String> = names.map(str::to_owned).collect();
            names.iter().for_each(|name| damage(&kernel, &backend, name));
            let mut book = Book::default();
            backend.check_kernels(&mut book, HEAP).unwrap();
            let told: Vec<_> = backend.wrong().iter().map(ToString::to_string).collect();
            assert!(!told.is_empty() && told.len() < book.0.len(), "{names:?}: {told:?}");
            assert!(told.iter().all(|line| line.contains(" runs on the CPU: ")), "{told:?}");
            let named = |line: &String| names.iter().any(|name| line.contains(name));
            assert!(told.iter().all(named), "{told:?}");
            backend.reserve(&plan).unwrap();
            let mut found = step(model, &mut backend, &tokens[..20], 0).unwrap();
            found.extend(step(model, &mut backend, &tokens[20..], 20).unwrap());
            let error = nmse(&found, &expected);
            assert!(error < 5e-4, "without {family}: NMSE {error:e}");
            end(&kernel, backend, family);
            // The next one knows it without running it.
            let kernel = soft(CHIPS[1], Level::Fast);
            let mut second = open(&kernel, model);
            second.check_kernels(&mut book, HEAP).unwrap();
            assert_eq!(second.wrong().len(), told.len());
            end(&kernel, second, family);
        }
    });
}
