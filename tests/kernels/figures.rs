//! Modelled time of kernels at true width: counts of the software GPU, priced by its model of a chip.
//!
//! These are figures of a model, not of a card; the limits keep a change from making kernels worse unnoticed.

use crate::check::{Case, full, run};
use crate::oracle::HEAP;
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{HeadResult, Op, Shape};
use doorbell_core::quant::Type;
use doorbell_isa::Target;
use doorbell_soft::processor::{Model as Chip, Options, Profile};
use doorbell_tests::tiny::{self, Family};

/// Multiply-adds of one clock of a vector unit's WMMA.
pub(crate) const PRODUCTS: f64 = 128.0;
/// Vector units of a compute unit.
pub(crate) const SIMDS: f64 = 2.0;

/// The counts of a launch of `times` as many workgroups.
fn grown(profile: &Profile, times: u64) -> Profile {
    let mut grown = profile.clone();
    grown.groups *= times;
    grown.waves *= times;
    grown.mix.iter_mut().for_each(|count| *count *= times);
    for count in [
        &mut grown.vector_cycles,
        &mut grown.scalar_cycles,
        &mut grown.lds_cycles,
        &mut grown.traffic.gl0,
        &mut grown.traffic.memory,
    ] {
        *count *= times;
    }
    grown
}

/// Prints what launches of so many multiply-adds take on a chip and answers the share of its matrix peak that they
/// reach, launching included.
fn share(name: &str, chip: &str, profiles: &[Profile], products: f64) -> f64 {
    let chip = Chip::of(chip).unwrap();
    let mut total = 0.0;
    for profile in profiles {
        let time = chip.time(profile);
        total += time.total();
        println!(
            "  {:>8.1} us, {} bound (vector {:.1}, LDS {:.1}, GL0 {:.1}, memory {:.1}, latency {:.1}), {} waves, {} VGPRs",
            time.total() / 1e3,
            time.bound(),
            time.vector / 1e3,
            time.lds / 1e3,
            time.gl0 / 1e3,
            time.memory / 1e3,
            time.latency / 1e3,
            time.occupancy,
            profile.vgprs,
        );
    }
    let share = products / (chip.units as f64 * SIMDS * chip.clock * PRODUCTS) / total;
    println!("{name} on {}: {:.1} % of the matrix peak", chip.name, 100.0 * share);
    share
}

/// The chips that prices are of.
pub(crate) const CHIPS: [&str; 2] = ["RX 7900 XTX", "8060S"];

/// The first operation of a model that `wanted` names, its launches counted.
fn counted(
    family: Family,
    shape: tiny::Shape,
    kind: Type,
    kv: KvType,
    runs: &[(u32, u32)],
    wanted: fn(&Op) -> bool,
) -> Vec<Profile> {
    let bytes = tiny::model(family, shape, kind, 5).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let mut case = Case { kv, ..Case::new(Target::Gfx1100, runs).fast() };
    case.options = Options { count: true, threads: 1, ..case.options };
    case.outputs.truncate(1);
    let plan = model.plan(Shape { rows: case.rows(), outputs: 1 }, HeadResult::Logits, HEAP).unwrap();
    let op = plan.ops.iter().find(|op| wanted(op)).unwrap();
    run(op, &model, &plan, &case).0.profiles
}

/// Weight types of a run; all of them are the developer's.
fn kinds() -> &'static [Type] {
    if full() { &[Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::F16] } else { &[Type::Q4_K] }
}

#[test]
fn products_of_many_rows() {
    let (hidden, heads) = (2048, 8);
    let shape = tiny::Shape {
        layers: 1,
        hidden,
        heads,
        kv_heads: 1,
        head_dim: 128,
        ff: 256,
        vocab: 384,
        ..tiny::Shape::WIDE
    };
    for kind in kinds() {
        let project = |op: &Op| matches!(op, Op::Project(_));
        let profiles = counted(Family::Qwen3, shape, *kind, KvType::F16, &[(0, 128)], project);
        let queries = profiles.iter().find(|profile| profile.name.contains("_1024x")).unwrap();
        // What F16 weights take of the 8060S is bandwidth.
        let least = if *kind == Type::F16 { 0.3 } else { 0.4 };
        // 512 rows of 4,096 outputs.
        for chip in CHIPS {
            let share = share(&kind.to_string(), chip, &[grown(queries, 16)], 512.0 * 4096.0 * 2048.0);
            assert!(share > least);
        }
    }
}

#[test]
fn attention_of_many_rows() {
    let shape = tiny::Shape {
        layers: 2,
        hidden: 256,
        heads: 8,
        kv_heads: 1,
        head_dim: 128,
        ff: 256,
        vocab: 384,
        ..tiny::Shape::WIDE
    };
    for kv in [KvType::F16, KvType::Q8_0] {
        let attend = |op: &Op| matches!(op, Op::Attend(_));
        let profiles = counted(Family::Qwen3, shape, Type::F32, kv, &[(480, 32)], attend);
        // 512 rows of 32 heads at their end.
        let flash = grown(&profiles[0], 64);
        for chip in CHIPS {
            let products = 512.0 * 32.0 * 256.0 * 496.0;
            assert!(
                share(&format!("attention over {kv}"), chip, core::slice::from_ref(&flash), products) > 0.3
            );
        }
    }
}

#[test]
fn grouped_products() {
    let shape = tiny::Shape {
        layers: 2,
        hidden: 2048,
        heads: 2,
        kv_heads: 1,
        head_dim: 64,
        experts: 8,
        experts_used: 4,
        expert_ff: 768,
        vocab: 384,
        ..tiny::Shape::WIDE
    };
    for kind in kinds() {
        let experts = |op: &Op| matches!(op, Op::Experts(_));
        let profiles = counted(Family::Qwen3Moe, shape, *kind, KvType::F16, &[(0, 64)], experts);
        // 512 rows of 128 experts, eight of which a row takes.
        let grouped = profiles.iter().filter(|profile| profile.name.starts_with("grouped"));
        let grouped: Vec<Profile> = grouped.map(|profile| grown(profile, 16)).collect();
        // Each expert has few rows: what the 8060S takes is the bandwidth for its weights.
        let row = |kind: Type| kind.row_bytes(2048).unwrap() as f64;
        let least = 0.35 * (row(Type::Q4_K) / row(*kind)).min(1.0);
        for chip in CHIPS {
            let products = 512.0 * 8.0 * 2048.0 * 768.0 * 3.0;
            assert!(share(&format!("experts of {kind}"), chip, &grouped, products) > least);
        }
    }
}

/// One launch of a layer.
pub(crate) struct Taken {
    pub(crate) profile: Profile,
    pub(crate) waits: bool,
}

/// The launches of one layer of a Qwen3-30B-A3B in Q4_K for one batch.
pub(crate) fn layer(model: &Model<'_>, runs: &[(u32, u32)]) -> Vec<Taken> {
    let mut case = Case::new(Target::Gfx1100, runs).fast();
    case.options = Options { count: true, threads: 1, ..case.options };
    case.outputs = (0..case.rows()).collect();
    let shape = Shape { rows: case.rows(), outputs: case.rows() };
    let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
    let mut taken = Vec::new();
    for op in &plan.ops {
        if matches!(op, Op::Embed { .. } | Op::Select { .. } | Op::Head(_)) {
            continue;
        }
        let ran = run(op, model, &plan, &case).0;
        let launches = ran.profiles.into_iter().zip(ran.waits);
        taken.extend(launches.map(|(profile, waits)| Taken { profile, waits }));
    }
    taken
}

/// Prints a layer on a chip. Answers the share of its time that the bytes alone would take; launches that wait for
/// nothing run beside the one before.
pub(crate) fn priced(name: &str, chip: &str, taken: &[Taken]) -> f64 {
    let chip = Chip::of(chip).unwrap();
    let (mut total, mut ideal) = (0.0, 0.0);
    println!("{name} on {}", chip.name);
    for Taken { profile, waits } in taken {
        let time = chip.time(profile);
        let own = time.total() - if *waits { 0.0 } else { time.launch };
        total += own;
        ideal += profile.traffic.ideal as f64 / chip.bandwidth;
        println!(
            "  {:>8.1} us {:<8} {:>6} groups {:>3} VGPRs {:>2} waves, bytes {:.3} of ideal, {:.60}",
            own / 1e3,
            time.bound(),
            profile.groups,
            profile.vgprs,
            time.occupancy,
            profile.traffic.memory as f64 / profile.traffic.ideal as f64,
            profile.name,
        );
    }
    println!(
        "  {:.1} us, of which bytes alone {:.1} us: {:.1} %",
        total / 1e3,
        ideal / 1e3,
        100.0 * ideal / total
    );
    ideal / total
}

/// A layer of a Qwen3-30B-A3B; fewer experts but in the long run.
pub(crate) fn reference() -> tiny::Shape {
    tiny::Shape {
        layers: 1,
        hidden: 2048,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        ff: 256,
        experts: if full() { 128 } else { 16 },
        experts_used: 8,
        expert_ff: 768,
        vocab: 384,
        context: 8192,
    }
}

#[test]
fn a_layer_of_the_reference_model() {
    let bytes = tiny::model(Family::Qwen3Moe, reference(), Type::Q4_K, 5).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let contexts: &[u32] = if full() { &[512, 4096] } else { &[512] };
    for context in contexts {
        let taken = layer(&model, &[(context - 1, 1)]);
        assert!(taken.len() <= 6, "{} dispatches", taken.len());
        let moved: u64 = taken.iter().map(|taken| taken.profile.traffic.memory).sum();
        let needed: u64 = taken.iter().map(|taken| taken.profile.traffic.ideal).sum();
        println!("decode at {context}: bytes {:.3} of ideal", moved as f64 / needed as f64);
        assert!((moved as f64) < 1.05 * needed as f64);
        for chip in CHIPS {
            assert!(priced(&format!("decode at {context}"), chip, &taken) > 0.5);
        }
    }
}
