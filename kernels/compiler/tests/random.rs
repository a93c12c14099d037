//! Random functions compile and check, or are refused with a typed error; nothing panics.
//!
//! `DOORBELL_CASES=100000` runs more of them than an ordinary test run.

use doorbell_compiler::ir::{
    ALU, Alu, AtomicOp, Axis, Builder, Counted, Elem, Fence, Fragment, Function, MatrixOp, Scope, Type,
    Value, Width,
};
use doorbell_compiler::{CompileError, Options, compile};
use doorbell_isa::TARGETS;

/// Seeds that once were compiled wrongly: a value computed again from one that was split at the same time.
const KEPT: [u64; 1] = [2609];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// A function under construction, with the values of each type that are in scope.
struct Generator {
    random: Random,
    pool: Vec<(Value, Type)>,
    depth: usize,
    buffers: Vec<Value>,
}

impl Generator {
    fn pick(&mut self, elem: Elem) -> Option<Value> {
        let fitting: Vec<Value> = self
            .pool
            .iter()
            .filter(|(_, ty)| ty.elem == elem && ty.count == 1)
            .map(|(value, _)| *value)
            .collect();
        // Now and then a value of any type: the verifier must refuse, nothing may panic.
        if self.random.below(200) == 0 && !self.pool.is_empty() {
            let index = self.random.below(self.pool.len());
            return Some(self.pool[index].0);
        }
        if fitting.is_empty() { None } else { Some(fitting[self.random.below(fitting.len())]) }
    }

    fn add(&mut self, value: Value, elem: Elem, count: u8) {
        self.pool.push((value, Type { elem, count, uniform: false }));
    }

    fn alu(&mut self, k: &mut Builder) {
        let alu = Alu::all().nth(self.random.below(ALU.len())).expect("below the count");
        let row = alu.row();
        let args: Option<Vec<Value>> = row.args.iter().map(|elem| self.pick(*elem)).collect();
        if let Some(args) = args {
            let value = k.alu(alu, &args);
            self.add(value, row.result, 1);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per operation")]
    fn step(&mut self, k: &mut Builder) {
        let buffer = self.buffers[self.random.below(self.buffers.len())];
        let Some(offset) = self.pick(Elem::Int) else { return };
        let mut address = k.global(buffer, offset);
        address.constant = [0, 4, 100, -8, 5000, 1 << 23][self.random.below(6)];
        let dwords = 1 + self.random.below(4) as u8;
        match self.random.below(32) {
            0 => {
                let value = k.int(self.random.below(1 << 20) as u32);
                self.add(value, Elem::Int, 1);
            }
            1 => {
                let value = k.float([0.5, 1.0, 3.25, -2.0][self.random.below(4)]);
                self.add(value, Elem::Float, 1);
            }
            2 | 3 => {
                let elem = [Elem::Int, Elem::Float][self.random.below(2)];
                let value = k.load(address, Width::Dwords(dwords), elem);
                self.add(value, elem, dwords);
                for index in 0..dwords {
                    let part = k.extract(value, index);
                    self.add(part, elem, 1);
                }
            }
            4 => {
                let value = k.load(k.lds(offset), Width::U16, Elem::Int);
                self.add(value, Elem::Int, 1);
            }
            5 => {
                let values: Option<Vec<Value>> = (0..dwords).map(|_| self.pick(Elem::Float)).collect();
                if let Some(values) = values {
                    let value = if dwords == 1 { values[0] } else { k.pack(&values) };
                    k.store(address, Width::Dwords(dwords), value);
                }
            }
            6 => k.store(k.lds(offset), Width::Dwords(1), offset),
            7 => k.barrier(self.random.below(2) == 0),
            8 => k.atomic(AtomicOp::AddInt, Scope::Device, address, offset),
            9 => {
                let value = k.lane_xor(offset, 1 + self.random.below(31) as u8);
                self.add(value, Elem::Int, 1);
            }
            10 => {
                let value = k.first_lane(offset);
                self.add(value, Elem::Int, 1);
            }
            11 => {
                let (a, b) = (self.pick(Elem::Int), self.pick(Elem::Int));
                if let (Some(a), Some(b)) = (a, b) {
                    let value = k.dot4(self.random.below(2) == 0, true, [a, b, offset]);
                    self.add(value, Elem::Int, 1);
                }
            }
            12 => {
                let condition = self.pick(Elem::Bool);
                let (a, b) = (self.pick(Elem::Float), self.pick(Elem::Float));
                if let (Some(condition), Some(a), Some(b)) = (condition, a, b) {
                    let value = k.select(condition, a, b);
                    self.add(value, Elem::Float, 1);
                }
            }
            13 => {
                let parts: Option<Vec<Value>> = (0..8).map(|_| self.pick(Elem::Int)).collect();
                if let Some(parts) = parts {
                    let a = k.fragment(&parts, Fragment::Half);
                    let c = k.zero_fragment(Fragment::FloatAcc);
                    let d = k.matrix(MatrixOp::Half, a, a, c);
                    let e = k.matrix(MatrixOp::Half, a, a, d);
                    let value = k.accumulator(e, 3);
                    self.add(value, Elem::Float, 1);
                }
            }
            14 | 15 if self.depth < 3 => self.branch(k),
            16 if self.depth < 3 => self.repeat(k),
            17 if self.depth < 3 => self.lanes(k),
            18 => {
                let space = if self.random.below(2) == 0 { k.lds(offset) } else { address };
                let scope = [Scope::Workgroup, Scope::Device][self.random.below(2)];
                let value = k.atomic_old(AtomicOp::AddInt, scope, space, offset);
                self.add(value, Elem::Int, 1);
            }
            19 => {
                let fence = [Fence::Release, Fence::Acquire][self.random.below(2)];
                k.fence(fence, [Scope::Workgroup, Scope::Device][self.random.below(2)]);
            }
            20 => {
                let lane = k.first_lane(offset);
                let (a, b) = (k.read_lane(offset, lane), k.lane_gather(offset, offset));
                self.add(a, Elem::Int, 1);
                self.add(b, Elem::Int, 1);
            }
            21 => {
                let (a, b) = (self.pick(Elem::Bool), self.pick(Elem::Bool));
                if let (Some(a), Some(b)) = (a, b) {
                    let not = k.negate(a);
                    let value = if self.random.below(2) == 0 { k.both(not, b) } else { k.either(not, b) };
                    self.add(value, Elem::Bool, 1);
                }
            }
            22 => {
                let (factor, step) = (k.first_lane(offset), k.int(self.random.below(1 << 20) as u32));
                let far = k.wide_mul(factor, step);
                let base = k.wide_add(buffer, far);
                let base = k.wide_add(base, factor);
                let value = k.load(k.global(base, offset), Width::Dwords(1), Elem::Int);
                self.add(value, Elem::Int, 1);
            }
            _ => self.alu(k),
        }
    }

    fn steps(&mut self, k: &mut Builder, most: usize) {
        let scope = self.pool.len();
        self.depth += 1;
        for _ in 0..1 + self.random.below(most) {
            self.step(k);
        }
        self.depth -= 1;
        if self.depth > 0 {
            self.pool.truncate(scope);
        }
    }

    fn branch(&mut self, k: &mut Builder) {
        let Some(condition) = self.pick(Elem::Bool) else { return };
        if self.random.below(2) == 0 {
            let mut this = core::mem::replace(self, Self::empty());
            k.when(condition, |k| this.steps(k, 8));
            *self = this;
            return;
        }
        let (Some(a), Some(b)) = (self.pick(Elem::Float), self.pick(Elem::Float)) else { return };
        let results = k.choose(condition, |k| vec![k.fadd(a, b)], |k| vec![k.fmul(a, b)]);
        self.add(results[0], Elem::Float, 1);
    }

    fn repeat(&mut self, k: &mut Builder) {
        let (Some(a), Some(b)) = (self.pick(Elem::Float), self.pick(Elem::Float)) else { return };
        let range = [k.int(0), k.int(self.random.below(100) as u32), k.int(1)];
        let mut this = core::mem::replace(self, Self::empty());
        let [start, end, step] = range;
        let counted = Counted { start, end, step, maybe: this.random.below(2) == 0, uniform: 0 };
        let results = k.counted(counted, &[a, b], |k, i, carried| {
            let scope = this.pool.len();
            this.add(i, Elem::Int, 1);
            this.add(carried[0], Elem::Float, 1);
            this.add(carried[1], Elem::Float, 1);
            this.steps(k, 8);
            let next = k.fma(carried[0], carried[1], carried[0]);
            this.pool.truncate(scope);
            // Sometimes the carried values change places.
            if this.random.below(2) == 0 { vec![carried[1], next] } else { vec![next, carried[1]] }
        });
        *self = this;
        for value in results {
            self.add(value, Elem::Float, 1);
        }
    }

    /// A loop that lanes leave one by one.
    fn lanes(&mut self, k: &mut Builder) {
        let (Some(a), Some(b)) = (self.pick(Elem::Int), self.pick(Elem::Int)) else { return };
        let first = if self.random.below(2) == 0 { self.pick(Elem::Bool) } else { None };
        let mut this = core::mem::replace(self, Self::empty());
        let results = k.repeat(first, &[a, b], |k, carried| {
            let scope = this.pool.len();
            this.add(carried[0], Elem::Int, 1);
            this.add(carried[1], Elem::Int, 1);
            this.steps(k, 6);
            let one = k.int(1);
            let next = k.add(carried[0], one);
            let again = k.lt_u(next, carried[1]);
            this.pool.truncate(scope);
            (vec![next, carried[1]], again)
        });
        *self = this;
        for value in results {
            self.add(value, Elem::Int, 1);
        }
    }

    fn empty() -> Self {
        Self { random: Random(0), pool: Vec::new(), depth: 0, buffers: Vec::new() }
    }
}

fn function(seed: u64) -> Function {
    let mut k = Builder::new("random", 64);
    let buffers = vec![k.buffer("a"), k.buffer("b")];
    let mut generator = Generator { random: Random(seed), pool: Vec::new(), depth: 0, buffers };
    let n = k.scalar("n", Elem::Int);
    let x = k.scalar("x", Elem::Float);
    let item = k.workitem_id();
    let group = k.workgroup_id([Axis::X, Axis::Y, Axis::Z][generator.random.below(3)]);
    for value in [n, item, group] {
        generator.add(value, Elem::Int, 1);
    }
    generator.add(x, Elem::Float, 1);
    k.local(4096);
    generator.steps(&mut k, 40);
    k.finish()
}

#[test]
fn random_functions_compile_or_are_refused() {
    assert!(ALU.len() < 256);
    let cases = std::env::var("DOORBELL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1500);
    let (mut compiled, mut refused, mut spilled) = (0, 0, 0);
    let mut reasons = [0u32; 4];
    for seed in (0..cases).chain(KEPT) {
        let function = function(seed);
        let target = TARGETS[(seed % 8) as usize];
        // Every third with far too few registers.
        let max_vgprs = [256, 256, 8 + 4 * (seed / 3 % 5) as u16][(seed % 3) as usize];
        let options = Options { max_vgprs, spill: max_vgprs < 256, ..Options::default() };
        match compile(&function, target, &options) {
            Ok(kernel) => {
                assert!(kernel.resources.vgprs <= max_vgprs);
                compiled += 1;
                spilled += u32::from(kernel.resources.scratch_bytes > 0);
            }
            // The last two would be faults of the compiler.
            Err(error @ (CompileError::Allocation(_) | CompileError::Binary(_) | CompileError::Emit(_))) => {
                panic!("seed {seed} {target}: {error}\n{function}")
            }
            Err(error) => {
                refused += 1;
                let reason = match error {
                    CompileError::Verify(_) => 0,
                    CompileError::Uniformity(_) => 1,
                    CompileError::Legalize(_) => 2,
                    _ => 3,
                };
                reasons[reason] += 1;
            }
        }
    }
    println!(
        "{compiled} compiled, {spilled} of them spilling, {refused} refused (verify, uniformity, legalize, pressure: \
         {reasons:?})"
    );
    assert!(compiled * 2 > cases, "{compiled} compiled, {refused} refused");
}
