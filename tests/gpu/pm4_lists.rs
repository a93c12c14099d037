//! Steps as PM4 lists and as AQL packets: the same memory; barriers that are missing are found; faults are reported alike;
//! where lists do not work, packets do.

use crate::bench::{
    FIRST, HEAP, PAGES, clock, end, goldens, open, prompt, run, settings, soft, step, with_model,
};
use crate::kernel_check::Book;
use doorbell_core::backend::{Backend as _, KvType, Output};
use doorbell_core::model::Model;
use doorbell_core::plan::{Batch, HeadResult, PageId, PageSpan, PageTables, RowRun, Shape};
use doorbell_core::reference::{Products, Reference};
use doorbell_core::token::TokenId;
use doorbell_gpu::estimate::estimate;
use doorbell_gpu::{Encoding, GpuBackend, GpuError, Pm4CheckFailure, Settings};
use doorbell_kfd::process::Process;
use doorbell_kfd::sys::{Fd, Kernel as _, MapMemory, Window, request};
use doorbell_kfd::topology::{Isa, Limit, MemoryDomain, MemoryPool, Rule, Topology};
use doorbell_soft::kernel::{Machine, Release, SoftKernel, chip};
use doorbell_soft::processor::{Level, Lists, Options};
use doorbell_tests::tiny::{self, Family};

const CHIPS: [&str; 3] = ["gfx1100", "gfx1151", "gfx1200"];
/// The memory that steps leave.
const LEFT: [&str; 6] =
    ["activations", "kernel scratch", "results", "picked tokens", "keys of group", "values of group"];

/// The allocation that models with recurrent layers leave besides.
const STATES: &str = "recurrent states";

/// A window on the allocation that holds what has this name, and where in it that is.
fn windows(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>, name: &str) -> Vec<(Window, usize, usize)> {
    let entries = backend.process().unwrap().allocations().entries();
    let named = entries.iter().filter(|entry| entry.name.as_str().starts_with(name));
    let window_of = |entry: &doorbell_kfd::memory::Allocation| {
        let holds = |other: &&doorbell_kfd::memory::Allocation| {
            other.handle.is_some() && (other.va..other.va + other.bytes).contains(&entry.va)
        };
        let buffer = entries.iter().find(holds).unwrap();
        let window = kernel.backing(buffer.handle.unwrap().0).unwrap();
        (window, (entry.va - buffer.va) as usize, entry.bytes as usize)
    };
    named.map(window_of).collect()
}

/// The bytes of everything that steps leave.
fn memory(kernel: &SoftKernel, backend: &GpuBackend<'_, '_, '_>) -> Vec<(&'static str, Vec<u8>)> {
    let of = |name: &'static str| {
        let windows = windows(kernel, backend, name);
        assert!(!windows.is_empty() || name == STATES, "{name}");
        windows.into_iter().map(move |(window, at, len)| {
            let mut bytes = vec![0; len];
            window.read(at, &mut bytes);
            (name, bytes)
        })
    };
    LEFT.into_iter().chain([STATES]).flat_map(of).collect()
}

fn best(logits: &[f32]) -> TokenId {
    let better = |best: usize, id: usize| if logits[id] > logits[best] { id } else { best };
    TokenId((0..logits.len()).reduce(better).unwrap() as u32)
}

/// Tokens of a chain of one sequence behind `position`.
fn chain(
    model: &Model<'_>,
    backend: &mut GpuBackend<'_, '_, '_>,
    token: TokenId,
    position: u32,
) -> Vec<TokenId> {
    const STEPS: u32 = 4;
    let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::ArgMax, HEAP).unwrap();
    backend.reserve(&plan).unwrap();
    let pages: Vec<PageId> = (0..PAGES).rev().map(PageId).collect();
    let spans = vec![PageSpan { start: 0, len: PAGES }; model.groups.len()];
    let tables = PageTables {
        pages: &pages,
        spans: &spans,
        groups: model.groups.len(),
        states: &crate::bench::STATES,
    };
    let runs = [RowRun { sequence: 0, first_row: 0, rows: 1, position }];
    let steps = backend.max_steps(&plan).min(STEPS);
    backend
        .submit_multi_step(&plan, &Batch { tokens: &[token], runs: &runs, outputs: &[0], tables }, steps)
        .unwrap();
    let mut tokens = Vec::new();
    while tokens.len() < steps as usize {
        if let Some(Output::Tokens(found)) = backend.poll().unwrap() {
            tokens.extend_from_slice(found);
        }
    }
    tokens
}

/// A prompt, single steps and a chain: the tokens, the bits of all logits, and what is in memory afterwards.
type Left = (Vec<TokenId>, Vec<u32>, Vec<(&'static str, Vec<u8>)>);

fn left(model: &Model<'_>, chip: &str, submit: Encoding, what: &str) -> Left {
    const ROWS: u32 = 9;
    let kernel = soft(chip, Level::Strict);
    let mut backend = open(&kernel, model, Settings { submit, ..settings(ROWS) }).unwrap();
    let lists = windows(&kernel, &backend, "PM4 lists").len();
    assert_eq!(lists > 0, submit == Encoding::Pm4, "{what}");
    let mut logits = step(model, &mut backend, &prompt(model, ROWS), 0).unwrap();
    let mut tokens = vec![best(&logits[logits.len() - model.vocabulary as usize..])];
    let single = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
    for position in ROWS..ROWS + 3 {
        let last = [*tokens.last().unwrap()];
        let found = run(model, &mut backend, &single, (&last, position), &[0]).unwrap();
        tokens.push(best(&found));
        logits.extend(found);
    }
    tokens.extend(chain(model, &mut backend, *tokens.last().unwrap(), ROWS + 3));
    let memory = memory(&kernel, &backend);
    end(&kernel, backend, what);
    (tokens, logits.into_iter().map(f32::to_bits).collect(), memory)
}

#[test]
fn lists_and_packets_leave_the_same_memory() {
    for (index, (name, bytes)) in goldens().into_iter().enumerate() {
        with_model(&bytes, |model| {
            let what = format!("{name} on {}", CHIPS[index % 3]);
            let [packets, lists] = Encoding::ALL.map(|submit| left(model, CHIPS[index % 3], submit, &what));
            assert_eq!(lists.0, packets.0, "{what}: tokens");
            assert!(lists.1 == packets.1, "{what}: logits");
            for ((part, found), (_, expected)) in lists.2.iter().zip(&packets.2) {
                let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
                assert_eq!(at, None, "{what}: {part}");
            }
            assert_eq!(lists.2.len(), packets.2.len(), "{what}");
        });
    }
}

/// Words of type-3 headers with what is in them, by their position.
fn packets(words: &[u32]) -> Vec<(usize, u32, usize)> {
    let (mut at, mut found) = (0, Vec::new());
    while at < words.len() && words[at] >> 30 == 3 {
        let len = (words[at] >> 16 & 0x3fff) as usize + 2;
        found.push((at, words[at] >> 8 & 0xff, len));
        at += len;
    }
    found
}

const WAIT: u32 = 0x46;
const ACQUIRE: u32 = 0x58;

/// Makes packets of every list that is there do nothing: of this kind, those that `which` says by number.
fn silence(
    kernel: &SoftKernel,
    backend: &GpuBackend<'_, '_, '_>,
    opcode: u32,
    which: impl Fn(usize) -> bool,
) -> usize {
    const NOP: u32 = 0x10;
    let mut most = 0;
    for (window, start, len) in windows(kernel, backend, "PM4 lists") {
        let words: Vec<u32> = (0..len / 4).map(|word| window.load32(start + 4 * word)).collect();
        let all = packets(&words);
        let these = all.iter().filter(|packet| packet.1 == opcode);
        for (number, (at, ..)) in these.enumerate() {
            most = most.max(number + 1);
            if which(number) {
                window.store32(start + 4 * at, words[*at] & !0xff00 | NOP << 8);
            }
        }
    }
    most
}

/// A token behind a prompt, with packets of the lists silenced before it: what there was of the kind, and the logits'
/// bits if nothing was found and nothing failed.
fn without(
    model: &Model<'_>,
    name: &str,
    opcode: u32,
    which: impl Fn(usize) -> bool,
) -> (usize, Option<Vec<u32>>) {
    let kernel = soft(name, Level::Strict);
    let mut backend = open(&kernel, model, settings(5)).unwrap();
    let tokens = prompt(model, 6);
    step(model, &mut backend, &tokens[..5], 0).unwrap();
    // The list of the step has to be there before it is changed; what it left is another token's.
    step(model, &mut backend, &tokens[5..], 5).unwrap();
    let there = silence(&kernel, &backend, opcode, which);
    let logits = step(model, &mut backend, &[TokenId(tokens[5].0 ^ 1)], 5);
    let gpu = backend.process().unwrap().device(FIRST).gpu_id();
    let is_clean = kernel.report(gpu).unwrap().findings.is_empty();
    // Numbers of experts that are none end in a page fault.
    let logits = logits.ok().filter(|_| is_clean);
    (there, logits.map(|logits| logits.into_iter().map(f32::to_bits).collect()))
}

/// The kernels of a step of one row, in order.
fn kernels(model: &Model<'_>, name: &str) -> Vec<String> {
    let plan = model.plan(Shape { rows: 1, outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
    let limits = [Limit { rule: Rule::VramSize, bytes: 1 << 30 }].into_iter().collect();
    let budget = MemoryPool { domain: MemoryDomain::Vram, limits };
    let isa = Isa(chip(name).unwrap().version);
    let estimate = estimate(model, &plan, isa, &budget, &settings(1), 32, HEAP).unwrap();
    estimate.ops.into_iter().flat_map(|op| op.dispatches).map(|dispatch| dispatch.kernel).collect()
}

/// Each barrier that orders anything is missed by the sanitizers or in the logits, and so are the invalidations.
#[test]
fn a_list_without_one_of_its_barriers_is_found() {
    for (family, name) in [(Family::Qwen3, CHIPS[0]), (Family::Qwen3Moe, CHIPS[2])] {
        with_model(&tiny::f32_model(family, 1), |model| {
            let kernels = kernels(model, name);
            let (waits, right) = without(model, name, WAIT, |_| false);
            assert!(right.is_some(), "a list as it should be");
            let missed =
                |opcode, which: &dyn Fn(usize) -> bool| without(model, name, opcode, which).1 == right;
            assert_eq!(waits, kernels.len(), "one behind each dispatch");
            // What waits behind the last dispatch is done by the end of the packet here.
            let unfound = (0..waits - 1).filter(|&wait| missed(WAIT, &|number| number == wait));
            assert_eq!(unfound.collect::<Vec<_>>(), [], "{name}: {kernels:?}");
            assert!(!missed(ACQUIRE, &|number| number > 0), "{name}: invalidations");
        });
    }
}

/// The report of a fault at the only use of a weight in mid-step, by packets and by lists.
#[test]
fn a_page_fault_names_the_dispatch_either_way() {
    with_model(&tiny::f32_model(Family::Qwen2, 1), |model| {
        let outcomes = Encoding::ALL.map(|submit| {
            let kernel = soft("gfx1100", Level::Fast);
            let mut backend = open(&kernel, model, Settings { submit, ..settings(4) }).unwrap();
            let tokens = prompt(model, 5);
            step(model, &mut backend, &tokens[..4], 0).unwrap();
            let process = backend.process().unwrap();
            let entries = process.allocations().entries();
            let entry = entries.iter().find(|entry| entry.name.as_str() == "blk.1.ffn_down.weight").unwrap();
            let mut arg = MapMemory { handle: entry.handle.unwrap().0, n_devices: 1, ..MapMemory::default() };
            let mut ids = [process.device(FIRST).gpu_id()];
            let (arg, ids) = (bytemuck::bytes_of_mut(&mut arg), bytemuck::cast_slice_mut(&mut ids));
            kernel.ioctl(&Fd::new(1), request::UNMAP_MEMORY_FROM_GPU, arg, ids).unwrap();
            let error = step(model, &mut backend, &tokens[4..], 4).unwrap_err();
            let GpuError::Fault(fault, Some(dispatch)) = &error else { panic!("{error:?}") };
            assert!(error.to_string().contains("blk.1.ffn_down.weight+"), "{error}");
            assert!(matches!(step(model, &mut backend, &tokens[4..], 4), Err(GpuError::Lost(Some(_)))));
            (dispatch.clone(), fault.in_flight().started)
        });
        let [(packet, by_packets), (listed, by_list)] = &outcomes;
        assert_eq!(*by_packets, 0);
        assert!(*by_list > 1, "{outcomes:?}");
        assert_eq!(packet, listed);
        assert!(listed.contains(&format!("({by_list} of ")), "{listed}");
    });
}

/// A kernel that does not end in the middle of a list, and a reset: reported as with packets.
#[test]
fn hangs_and_resets_are_reported_either_way() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let tokens = prompt(model, 4);
        let outcomes = Encoding::ALL.map(|submit| {
            let options = Options { level: Level::Fast, budget: 3_000, ..Options::default() };
            let chips = [chip("gfx1151").unwrap()];
            let kernel = SoftKernel::new(Machine::new(Release::V7_2, 64 << 30, &chips), &options).unwrap();
            let settings = Settings { hang_ms: 40, submit, ..settings(4) };
            let mut backend = open(&kernel, model, settings).unwrap();
            let error = step(model, &mut backend, &tokens, 0).unwrap_err();
            let GpuError::Fault(_, Some(dispatch)) = &error else { panic!("{error:?}") };
            assert!(error.to_string().starts_with("no progress for 40 ms"), "{error}");
            dispatch.clone()
        });
        assert_eq!(outcomes[0], outcomes[1]);
        for submit in Encoding::ALL {
            let kernel = soft("gfx1100", Level::Fast);
            let mut backend = open(&kernel, model, Settings { submit, ..settings(4) }).unwrap();
            kernel.inject(|injection| injection.reset_after = Some(0));
            let error = step(model, &mut backend, &tokens, 0).unwrap_err();
            assert!(error.to_string().contains("the whole GPU was reset"), "{error}");
            let after = step(model, &mut backend, &tokens, 0).unwrap_err();
            assert!(matches!(&after, GpuError::Lost(Some(_))), "{after:?}");
        }
    });
}

/// Firmware that refuses lists, never ends them or leaves them out: steps are packets, one line says why, and the next
/// run knows.
#[test]
fn where_lists_do_not_work_packets_do() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let tokens = prompt(model, 7);
        let mut reference = Reference::new(model, PAGES, KvType::F16, Products::Exact, HEAP).unwrap();
        let expected =
            best(&step(model, &mut reference, &tokens, 0).unwrap()[6 * model.vocabulary as usize..]);
        for (lists, why) in [
            (Lists::Run, None),
            (Lists::Refuse, Some("a PM4 list failed: the queue stopped: bad vendor packet")),
            (Lists::Ignore, Some("a PM4 list failed: no progress for 2000 ms")),
            (Lists::Skip, Some("a PM4 list computed something else")),
        ] {
            let mut book = Book::default();
            for again in [false, true] {
                let options = Options { lists, ..Options::default() };
                let chips = [chip("gfx1100").unwrap()];
                let kernel =
                    SoftKernel::new(Machine::new(Release::V6_12, 64 << 30, &chips), &options).unwrap();
                let mut backend = open(&kernel, model, settings(20)).unwrap();
                backend.check_kernels(&mut book, HEAP).unwrap();
                assert_eq!(backend.wrong_kernels(), [], "{lists:?}");
                let failure = backend.pm4_check_failure().map(ToString::to_string);
                assert_eq!(failure.is_some(), why.is_some(), "{lists:?}: {failure:?}");
                if let (Some(failure), Some(why)) = (failure, why) {
                    let why = if again { "PM4 lists have failed on this device before" } else { why };
                    assert!(failure.contains(why), "{failure}");
                    assert!(failure.starts_with("dispatches are submitted as AQL packets"), "{failure}");
                    assert_eq!(matches!(backend.pm4_check_failure(), Some(Pm4CheckFailure::Known)), again);
                }
                let logits = step(model, &mut backend, &tokens, 0).unwrap();
                assert_eq!(best(&logits[6 * model.vocabulary as usize..]), expected, "{lists:?}");
                let listed = !windows(&kernel, &backend, "PM4 lists").is_empty();
                assert_eq!(listed, lists == Lists::Run, "{lists:?}");
                end(&kernel, backend, "lists that do not work");
            }
        }
    });
}

/// A device lost by a list is reported as lost, and the next run does without lists.
#[test]
fn a_list_that_costs_the_device_is_not_tried_again() {
    with_model(&tiny::f32_model(Family::Qwen3, 1), |model| {
        let mut book = Book::default();
        for again in [false, true] {
            let options = Options { level: Level::Fast, lists: Lists::Ignore, ..Options::default() };
            let chips = [chip("gfx1100").unwrap()];
            let kernel = SoftKernel::new(Machine::new(Release::V6_12, 64 << 30, &chips), &options).unwrap();
            let mut backend = open(&kernel, model, settings(20)).unwrap();
            // The scheduler does not get the queue off the hardware.
            let refusal = (request::DESTROY_QUEUE, doorbell_kfd::sys::Errno::ETIME);
            kernel.inject(|injection| injection.refuse = Some(refusal));
            let checked = backend.check_kernels(&mut book, HEAP);
            assert_eq!(matches!(checked, Err(GpuError::Lost(Some(_)))), !again, "{checked:?}");
            assert_eq!(backend.pm4_check_failure(), again.then_some(&Pm4CheckFailure::Known));
        }
    });
}

/// Timed dispatches are packets, whatever is wished.
#[test]
fn timed_dispatches_are_packets() {
    with_model(&tiny::f32_model(Family::Llama, 1), |model| {
        let kernel = soft("gfx1151", Level::Fast);
        let process = Process::open_all(&kernel, &Topology::scan(&kernel).unwrap()).unwrap();
        let settings = Settings { profile: true, submit: Encoding::Pm4, ..settings(3) };
        let mut backend = GpuBackend::new(process, FIRST, model, settings, clock(), None, HEAP).unwrap();
        step(model, &mut backend, &prompt(model, 3), 0).unwrap();
        let timings = backend.take_timings();
        assert!(timings.len() > 10 && timings.iter().all(|timing| timing.start <= timing.end), "{timings:?}");
        assert!(windows(&kernel, &backend, "PM4 lists").is_empty());
        end(&kernel, backend, "timed");
    });
}
