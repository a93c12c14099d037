//! One operation on the software GPU and by the oracle, from the same random memory.

use crate::machine::Machine;
use crate::oracle::{HEAP, Location, Oracle, Pool, Rowset, State};
use doorbell_core::backend::KvType;
use doorbell_core::gguf::Gguf;
use doorbell_core::model::Model;
use doorbell_core::plan::{
    Experts, HeadResult, Op, PAGE_TOKENS, Plan, RowRun, Rows, Shape, StateId, TensorId,
};
use doorbell_core::quant::{self, Type};
use doorbell_isa::Target;
use doorbell_kernels::{
    Inputs, KernelSpec, KvLayout, KvPool, Launch, MatrixPath, Step, lower_by, scratch_bytes, supports,
};
use doorbell_soft::processor::{Level, Options, Profile};
use doorbell_tests::random::Random;
use doorbell_tests::tiny::{self, Family};
use half::f16;
use std::collections::BTreeMap;

/// True in a developer's long run: `DOORBELL_GRID` is set.
pub(crate) fn full() -> bool {
    std::env::var_os("DOORBELL_GRID").is_some()
}

/// The conditions of a run of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) target: Target,
    pub(crate) kv: KvType,
    /// Seed of all numbers.
    pub(crate) seed: u64,
    /// Options of the software GPU.
    pub(crate) options: Options,
    /// Sequences: position of the first row, rows.
    pub(crate) runs: Vec<(u32, u32)>,
    pub(crate) outputs: Vec<u32>,
    /// First expert of every row; without, each has its own.
    pub(crate) expert: Option<u32>,
    /// A row whose activations are all this number.
    pub(crate) spoilt: Option<(u32, f32)>,
    /// The path of products of many rows; the library chooses if `None`.
    pub(crate) path: Option<MatrixPath>,
}

impl Case {
    pub(crate) fn new(target: Target, runs: &[(u32, u32)]) -> Self {
        let rows: u32 = runs.iter().map(|run| run.1).sum();
        let outputs = (0..rows).filter(|row| row % 3 == 0 || row + 1 == rows).collect();
        let options = Options { level: Level::Strict, seed: 1, ..Options::default() };
        let runs = runs.to_vec();
        let (expert, spoilt, path) = (None, None, None);
        Self { target, kv: KvType::F16, seed: 1, options, runs, outputs, expert, spoilt, path }
    }

    /// The same without sanitizers, for what is large.
    pub(crate) fn fast(self) -> Self {
        Self { options: Options { level: Level::Fast, threads: 2, ..self.options }, ..self }
    }

    pub(crate) fn rows(&self) -> u32 {
        self.runs.iter().map(|run| run.1).sum()
    }

    fn rowset(&self, model: &Model<'_>, random: &mut Random) -> (Rowset, u32) {
        let mut free = 0u32;
        let (mut tokens, mut locations, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        let per_run: Vec<u32> =
            self.runs.iter().map(|(start, rows)| (start + rows).div_ceil(PAGE_TOKENS as u32)).collect();
        let total: u32 = per_run.iter().sum::<u32>() + 1;
        for ((start, rows), count) in self.runs.iter().zip(per_run) {
            // Not in the order of positions.
            let pages: Vec<u32> = (free..free + count).rev().collect();
            free += count;
            let (sequence, first_row) = (runs.len() as u32, tokens.len() as u32);
            runs.push(RowRun { sequence, first_row, rows: *rows, position: *start });
            for row in 0..*rows {
                tokens.push(random.below(model.vocabulary as usize) as u32);
                let pages = vec![pages.clone(); model.groups.len()];
                locations.push(Location { position: start + row, pages });
            }
        }
        // Neither in the order of runs, nor without gaps.
        let states = (1..=runs.len() as u32).rev().map(StateId).collect();
        (Rowset { tokens, locations, runs, states, outputs: self.outputs.clone() }, total)
    }
}

fn cells(bytes: &[u8], kv: KvType) -> Vec<f32> {
    match kv {
        KvType::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        KvType::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
        KvType::Q8_0 => {
            let mut cells = vec![0.0; bytes.len() / kv.block_bytes() * kv.block_len()];
            quant::dequantize(Type::Q8_0, bytes, &mut cells).unwrap();
            cells
        }
    }
}

fn bytes_of(cells: &[f32], kv: KvType) -> Vec<u8> {
    match kv {
        KvType::F16 => cells.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        KvType::F32 => cells.iter().flat_map(|x| x.to_le_bytes()).collect(),
        KvType::Q8_0 => {
            let mut bytes = vec![0; kv.row_bytes(cells.len()).unwrap()];
            quant::Activation::Q8_0.quantize(cells, &mut bytes).unwrap();
            bytes
        }
    }
}

/// Squared error and square of the expectation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviation {
    error: f64,
    square: f64,
}

impl Deviation {
    fn add(&mut self, found: f32, expected: f32) {
        if found.is_finite() && expected.is_finite() {
            let error = f64::from(found) - f64::from(expected);
            self.error += error * error;
            self.square += f64::from(expected) * f64::from(expected);
        } else if found != expected && !(found.is_nan() && expected.is_nan()) {
            // Infinities and NaN have to be met.
            self.error = f64::INFINITY;
        }
    }

    /// Normalized mean square error.
    pub(crate) fn nmse(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.square }
    }
}

/// Addresses of everything.
struct Device {
    arena: u64,
    scratch: u64,
    scratch_bytes: usize,
    weights: Vec<u64>,
    vectors: Vec<u64>,
    ropes: Vec<u64>,
    pools: Vec<KvPool>,
    states: u64,
    inputs: Inputs,
}

fn start(
    rows: &Rowset,
    model: &Model<'_>,
    plan: &Plan<'_>,
    pages: u32,
    kv: KvType,
    random: &mut Random,
) -> State {
    let mut arena = vec![0u32; plan.arena];
    arena.iter_mut().for_each(|cell| *cell = random.normal().to_bits());
    let pools = model.groups.iter().map(|group| {
        [KvLayout::keys(group, kv), KvLayout::values(group, kv)].map(|layout| {
            let count = pages as usize * layout.page_bytes() as usize / kv.block_bytes() * kv.block_len();
            let numbers: Vec<f32> = (0..count).map(|_| f16::from_f32(random.normal()).to_f32()).collect();
            // What such a cache can hold.
            Pool { layout, cells: cells(&bytes_of(&numbers, kv), kv) }
        })
    });
    let pools = pools.collect();
    let result = vec![0x7fc0_0001; rows.outputs.len() * model.vocabulary as usize];
    let floats = model.state.map_or(0, |shape| shape.floats() * (rows.states.len() + 1));
    let states = (0..floats).map(|_| random.normal()).collect();
    State { arena, pools, states, result }
}

/// The start of each row's table among all page ids, by group, and these ids.
fn page_tables(model: &Model<'_>, rows: &Rowset) -> (Vec<u32>, Vec<u32>) {
    let (mut tables, mut pages) = (Vec::new(), Vec::new());
    for group in 0..model.groups.len() {
        let mut before: Option<(&[u32], u32)> = None;
        for location in &rows.locations {
            // Rows of a run share a table.
            let own = location.pages[group].as_slice();
            let start = match before {
                Some((other, start)) if other == own => start,
                _ => {
                    pages.extend(own);
                    (pages.len() - own.len()) as u32
                }
            };
            tables.push(start);
            before = Some((own, start));
        }
    }
    (tables, pages)
}

fn upload(machine: &mut Machine, model: &Model<'_>, plan: &Plan<'_>, rows: &Rowset, state: &State) -> Device {
    let weights = model.weights.iter().map(|weight| machine.upload("weight", weight.data)).collect();
    let words = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let vectors = model.vectors.iter().map(|vector| machine.upload_words("vector", &words(vector))).collect();
    let last = rows.locations.iter().map(|location| location.position).max().unwrap_or(0);
    let ropes = model.ropes.iter().map(|rope| {
        let pairs = rope.frequencies.len();
        let mut table = Vec::new();
        for position in 0..=last {
            let (mut cos, mut sin) = (vec![0.0; pairs], vec![0.0; pairs]);
            rope.angles(position, &mut cos, &mut sin);
            table.extend(cos.iter().zip(&sin).flat_map(|(cos, sin)| [cos.to_bits(), sin.to_bits()]));
        }
        machine.upload_words("rope", &table)
    });
    let ropes = ropes.collect();
    let pools = state.pools.iter().map(|[keys, values]| KvPool {
        keys: machine.upload("keys", &bytes_of(&keys.cells, keys.layout.kv)),
        values: machine.upload("values", &bytes_of(&values.cells, values.layout.kv)),
    });
    let pools = pools.collect();
    let (tables, pages) = page_tables(model, rows);
    let count = rows.tokens.len();
    let of_outputs = |values: &[u32]| -> Vec<u32> {
        let groups = values.chunks_exact(count);
        groups.flat_map(|values| rows.outputs.iter().map(|row| values[*row as usize])).collect()
    };
    let positions: Vec<u32> = rows.locations.iter().map(|location| location.position).collect();
    let mut runs = vec![rows.runs.len() as u32];
    runs.extend(
        rows.runs.iter().zip(&rows.states).flat_map(|(run, state)| [run.first_row, run.rows, state.0]),
    );
    let inputs = Inputs {
        tokens: machine.upload_words("tokens", &rows.tokens),
        positions: machine.upload_words("positions", &positions),
        tables: machine.upload_words("tables", &tables),
        pages: machine.upload_words("pages", &pages),
        outputs: machine.upload_words("outputs", &rows.outputs),
        output_positions: machine.upload_words("output_positions", &of_outputs(&positions)),
        output_tables: machine.upload_words("output_tables", &of_outputs(&tables)),
        runs: machine.upload_words("runs", &runs),
        result: machine.upload_words("result", &state.result),
        ring: None,
    };
    let states = machine.upload_words("states", &words(&state.states));
    let arena = machine.upload_words("arena", &state.arena);
    let scratch_bytes = scratch_bytes(plan, model) as usize;
    let scratch = machine.upload("scratch", &vec![0; scratch_bytes]);
    Device { arena, scratch, scratch_bytes, weights, vectors, ropes, pools, states, inputs }
}

/// The results of an operation on the software GPU.
pub(crate) struct Ran {
    /// For each launch: true if it waits for the one before.
    pub(crate) waits: Vec<bool>,
    pub(crate) profiles: Vec<Profile>,
    /// For each operation: true if its products took activations in codes of eight bits.
    coded: Vec<bool>,
    arena: Vec<u32>,
    result: Vec<u32>,
    /// Keys and values of each group.
    pools: Vec<[Vec<u8>; 2]>,
    states: Vec<u32>,
}

impl Ran {
    /// True if two runs wrote the same bits.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.arena == other.arena
            && self.result == other.result
            && self.pools == other.pools
            && self.states == other.states
    }
}

/// The chosen experts of every row; no two slots of a row have one expert.
fn choose(op: &Experts, model: &Model<'_>, plan: &Plan<'_>, case: &Case, state: &mut State) {
    let mut random = Random::new(case.seed);
    let count = model.hparams.experts.map_or(1, |experts| experts.count as usize);
    let step = if count.is_multiple_of(3) { 1 } else { 3 };
    let tensor = plan.tensor(op.ids);
    let width = tensor.width as usize;
    let rows = if tensor.rows == Rows::Batch { case.rows() as usize } else { case.outputs.len() };
    for row in state.arena[tensor.offset..tensor.offset + rows * width].chunks_exact_mut(width) {
        let first = case.expert.map_or_else(|| random.below(count), |expert| expert as usize);
        for (slot, id) in row.iter_mut().enumerate() {
            *id = ((first + slot * step) % count) as u32;
        }
    }
}

/// The part of the arena that an operation reads, all of it f32.
fn inputs(op: &Op) -> Vec<TensorId> {
    match op {
        Op::Embed { .. } => Vec::new(),
        Op::Select { input, .. } => vec![*input],
        Op::NormAdd(op) => vec![op.input],
        Op::Rotate(op) => vec![op.input],
        Op::DeltaNet(op) => vec![op.mixed, op.gate],
        Op::Project(op) => vec![op.input],
        Op::Attend(op) => vec![op.query],
        Op::Route(op) => vec![op.input],
        Op::Experts(op) => vec![op.input, op.weights],
        Op::Head(op) => vec![op.input],
    }
}

/// Runs an operation from a random state, which comes back with its rows.
pub(crate) fn run(op: &Op, model: &Model<'_>, plan: &Plan<'_>, case: &Case) -> (Ran, Rowset, State) {
    run_all(core::slice::from_ref(op), model, plan, case)
}

/// Runs operations, each on what the one before left.
fn run_all(ops: &[Op], model: &Model<'_>, plan: &Plan<'_>, case: &Case) -> (Ran, Rowset, State) {
    let mut random = Random::new(case.seed);
    let (rows, pages) = case.rowset(model, &mut random);
    let mut state = start(&rows, model, plan, pages, case.kv, &mut random);
    if let [Op::Experts(op)] = ops {
        choose(op, model, plan, case, &mut state);
    }
    if let Some((row, value)) = case.spoilt {
        for tensor in ops.iter().flat_map(inputs).map(|id| plan.tensor(id)) {
            let first = tensor.offset + row as usize * tensor.width as usize;
            state.arena[first..first + tensor.width as usize].fill(value.to_bits());
        }
    }
    let mut machine = Machine::new(case.target, case.options.clone());
    let device = upload(&mut machine, model, plan, &rows, &state);
    let positions = rows.locations.iter().map(|location| location.position + 1).max().unwrap_or(0);
    let step = Step {
        model,
        plan,
        rows: rows.tokens.len() as u32,
        outputs: rows.outputs.len() as u32,
        single: rows.runs.iter().all(|run| run.rows == 1),
        positions,
        arena: device.arena,
        scratch: device.scratch,
        weights: &device.weights,
        vectors: &device.vectors,
        ropes: &device.ropes,
        pools: &device.pools,
        states: device.states,
        kv: case.kv,
        inputs: device.inputs,
    };
    let (mut launches, mut coded): (Vec<Launch>, _) = (Vec::new(), Vec::new());
    for op in ops {
        assert!(supports(op, model, case.target), "{} is not supported: {op:?}", op.name());
        let before = launches.len();
        lower_by(case.path, op, &step, case.target, &mut |launch| launches.push(launch)).unwrap();
        assert!(launches.len() > before);
        let quantizes = |launch: &Launch| matches!(launch.spec, KernelSpec::ActivationsI8(_));
        coded.push(launches[before..].iter().any(quantizes));
    }
    launches.iter().for_each(|launch| machine.run(launch));
    let arena = machine.read_words(device.arena, plan.arena);
    let result = machine.read_words(device.inputs.result, state.result.len());
    let pools = state.pools.iter().zip(&device.pools).map(|([keys, values], own)| {
        [(keys, own.keys), (values, own.values)]
            .map(|(pool, address)| machine.read(address, case.kv.row_bytes(pool.cells.len()).unwrap()))
    });
    let pools = pools.collect();
    let states = machine.read_words(device.states, state.states.len());
    let counters = machine.read(device.scratch, device.scratch_bytes.min(1 << 16));
    assert!(counters.iter().all(|byte| *byte == 0), "{} leaves counters", ops[0].name());
    let profiles = core::mem::take(&mut machine.profiles);
    let waits = launches.iter().map(|launch| launch.waits).collect();
    (Ran { waits, profiles, coded, arena, result, pools, states }, rows, state)
}

/// Runs one operation both ways.
pub(crate) fn check(op: &Op, model: &Model<'_>, plan: &Plan<'_>, case: &Case) -> Deviation {
    let (ran, rows, before) = run(op, model, plan, case);
    let mut expected = before.clone();
    Oracle { model, plan, rows: &rows, coded: ran.coded[0] }.run(op, &mut expected);
    let mut deviation = Deviation::default();
    compare(&mut deviation, &ran.arena, &expected.arena, &before.arena, op.name());
    compare(&mut deviation, &ran.result, &expected.result, &before.result, "result");
    for ((found, expected), before) in ran.pools.iter().zip(&expected.pools).zip(&before.pools) {
        for ((bytes, expected), before) in found.iter().zip(expected).zip(before) {
            let words = |cells: &[f32]| cells.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
            let found = words(&cells(bytes, case.kv));
            compare(&mut deviation, &found, &words(&expected.cells), &words(&before.cells), "pool");
        }
    }
    let words = |cells: &[f32]| cells.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    compare(&mut deviation, &ran.states, &words(&expected.states), &words(&before.states), "states");
    deviation
}

/// Runs all operations of a plan both ways; what becomes of the logits, and whether products took activations in codes of
/// eight bits, which the expectation does not.
pub(crate) fn check_step(model: &Model<'_>, plan: &Plan<'_>, case: &Case) -> (Deviation, bool) {
    let (ran, rows, before) = run_all(&plan.ops, model, plan, case);
    let mut expected = before.clone();
    let oracle = Oracle { model, plan, rows: &rows, coded: false };
    plan.ops.iter().for_each(|op| oracle.run(op, &mut expected));
    let mut deviation = Deviation::default();
    compare(&mut deviation, &ran.result, &expected.result, &before.result, "result");
    (deviation, ran.coded.contains(&true))
}

/// Cells that the operation did not change have to be as before; the others count.
fn compare(deviation: &mut Deviation, found: &[u32], expected: &[u32], before: &[u32], what: &str) {
    for (index, ((found, expected), before)) in found.iter().zip(expected).zip(before).enumerate() {
        if expected == before {
            // What was touched is an error as large as the change.
            if found != before {
                assert!(f32::from_bits(*before).is_finite(), "{what}: cell {index} is touched");
                deviation.add(f32::from_bits(*found), f32::from_bits(*expected));
            }
        } else {
            // As floats, ids are subnormal: they have to be exact.
            let id = |bits: &u32| (1..1 << 20).contains(bits);
            if id(expected) || id(found) {
                assert_eq!(found, expected, "{what}: id in cell {index}");
            }
            deviation.add(f32::from_bits(*found), f32::from_bits(*expected));
        }
    }
}

/// Checks every operation of a plan that `wanted` names; the worst error by operation.
pub(crate) fn check_plan(
    family: Family,
    shape: tiny::Shape,
    kind: Type,
    case: &Case,
    wanted: impl Fn(&Op) -> bool,
) -> BTreeMap<&'static str, f64> {
    let bytes = tiny::model(family, shape, kind, case.seed).to_bytes();
    let model = Model::new(&Gguf::parse(&bytes, HEAP).unwrap(), HEAP).unwrap();
    let shape = Shape { rows: case.rows(), outputs: case.outputs.len() as u32 };
    let plan = model.plan(shape, HeadResult::Logits, HEAP).unwrap();
    let mut worst = BTreeMap::new();
    for op in plan.ops.iter().filter(|op| wanted(op)) {
        let nmse = check(op, &model, &plan, case).nmse();
        // A product that lies between two codes may take the other one.
        let limit = if case.kv == KvType::Q8_0 { 5e-6 } else { 1e-6 };
        assert!(nmse < limit, "{family:?} {kind} {} on {}: NMSE {nmse:e}", op.name(), case.target);
        let slot: &mut f64 = worst.entry(op.name()).or_default();
        *slot = slot.max(nmse);
    }
    worst
}
