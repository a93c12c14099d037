//! Kernels with too few registers give the results of kernels with enough: cheap values computed again, others kept in
//! scratch memory.

use crate::machine::{Arg, Random, TARGETS, clean};
use doorbell_compiler::ir::{Alu, Builder, Elem, Function, Value, Width};
use doorbell_compiler::machine::Bank;
use doorbell_compiler::{CompileError, Kernel, Options, compile};
use doorbell_isa::Target;

/// Dwords of a lane's row of input.
const ROW: usize = 48;

fn ints(random: &mut Random, count: usize) -> Vec<u8> {
    random.bytes(4 * count)
}

fn compiled(
    function: &Function,
    target: Target,
    max_vgprs: u16,
    spill: bool,
) -> Result<Kernel, CompileError> {
    compile(function, target, &Options { max_vgprs, spill, ..Options::default() })
}

/// Functions of many values that stay live across branches and loops.
struct Tangle {
    random: Random,
    pool: Vec<Value>,
    lane: Value,
}

impl Tangle {
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.random.next()) % count
    }

    fn any(&mut self) -> Value {
        let index = self.below(self.pool.len());
        self.pool[index]
    }

    /// Combines some of the values; one of them is replaced by the result.
    fn step(&mut self, k: &mut Builder) {
        let alu = [Alu::add, Alu::sub, Alu::xor, Alu::mul, Alu::min_u, Alu::or, Alu::shr][self.below(7)];
        let (a, b) = (self.any(), self.any());
        let mut result = k.alu(alu, &[a, b]);
        if self.below(8) == 0 {
            let mask = 1 + self.below(31) as u8;
            result = k.lane_xor(result, mask);
        }
        let index = self.below(self.pool.len());
        self.pool[index] = result;
    }

    fn steps(&mut self, k: &mut Builder, count: usize) {
        for _ in 0..count {
            self.step(k);
        }
    }

    /// A branch that some lanes take, both sides with values of their own.
    fn branch(&mut self, k: &mut Builder) {
        let limit = self.below(32) as u32;
        let limit = k.int(limit);
        let some = k.lt_u(self.lane, limit);
        let (mut first, mut second) = (self.pool.clone(), self.pool.clone());
        let mut results = Vec::new();
        for _ in 0..6 {
            results.push(self.below(self.pool.len()));
        }
        let seed = u32::from(self.random.next());
        let side = |k: &mut Builder, pool: &mut Vec<Value>, seed: u32, lane: Value| {
            let mut side = Self { random: Random(seed), pool: core::mem::take(pool), lane };
            // Lanes do not read each other here: not all of them are active.
            for _ in 0..12 {
                let (a, b, at) = (side.any(), side.any(), side.below(side.pool.len()));
                side.pool[at] = if side.below(2) == 0 { k.add(a, b) } else { k.xor(a, b) };
            }
            results.iter().map(|index| side.pool[*index]).collect::<Vec<Value>>()
        };
        let lane = self.lane;
        let merged = k.choose(
            some,
            |k| side(k, &mut first, seed, lane),
            |k| side(k, &mut second, seed ^ 0x5555, lane),
        );
        for (index, value) in results.iter().zip(merged) {
            self.pool[*index] = value;
        }
    }

    /// A loop that carries some of the values, and a vector of them.
    fn repeat(&mut self, k: &mut Builder) {
        let (zero, end, one) = (k.int(0), k.int(3), k.int(1));
        let carried: Vec<Value> = (0..5).map(|_| self.any()).collect();
        let mut inner =
            Self { random: Random(self.random.next().into()), pool: self.pool.clone(), lane: self.lane };
        let ends = k.for_range([zero, end, one], &carried, |k, i, inside| {
            inner.pool.extend(inside);
            inner.pool.push(i);
            inner.steps(k, 25);
            if inner.below(2) == 0 {
                inner.branch(k);
            }
            (0..5).map(|_| inner.any()).collect()
        });
        for value in ends {
            let index = self.below(self.pool.len());
            self.pool[index] = value;
        }
    }
}

pub(crate) fn tangle(seed: u32) -> Function {
    let mut k = Builder::new("tangle", 32);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let lane = k.workitem_id();
    let pitch = k.int(4 * ROW as u32);
    let own = k.mul(lane, pitch);
    let mut pool = Vec::new();
    let mut at = 0;
    let mut random = Random(seed);
    while at < ROW {
        let count = 1 + random.next() as usize % 4.min(ROW - at);
        let mut address = k.global(x, own);
        address.constant = 4 * at as i32;
        let loaded = k.load(address, Width::Dwords(count as u8), Elem::Int);
        pool.extend((0..count).map(|index| k.extract(loaded, index as u8)));
        at += count;
    }
    let mut tangle = Tangle { random, pool, lane };
    for _ in 0..3 {
        tangle.steps(&mut k, 20);
        match tangle.below(3) {
            0 => tangle.branch(&mut k),
            _ => tangle.repeat(&mut k),
        }
    }
    let pool = tangle.pool;
    for (index, values) in pool.chunks(4).enumerate() {
        let mut address = k.global(out, own);
        address.constant = 16 * index as i32;
        let value = if values.len() == 1 { values[0] } else { k.pack(values) };
        k.store(address, Width::Dwords(values.len() as u8), value);
    }
    k.finish()
}

#[test]
fn spilled_kernels_compute_the_same() {
    let (mut spilled, mut kernels) = (0, 0);
    for seed in 1..=12 {
        let function = tangle(seed);
        let x = ints(&mut Random(seed), 32 * ROW);
        for target in TARGETS {
            let args = || [Arg::Buffer(x.clone()), Arg::Fresh(4 * 32 * ROW)];
            let roomy = compiled(&function, target, 256, false).expect("enough registers");
            let expected = clean(&roomy, [1, 1], &args()).words(1);
            assert_eq!(roomy.resources.scratch_bytes, 0);
            for most in [40, 28] {
                let kernel = compiled(&function, target, most, true)
                    .unwrap_or_else(|error| panic!("seed {seed} {target} {most}: {error}"));
                assert!(kernel.resources.vgprs <= most);
                kernels += 1;
                spilled += u32::from(kernel.resources.scratch_bytes > 0);
                assert_eq!(clean(&kernel, [1, 1], &args()).words(1), expected, "seed {seed} {target} {most}");
            }
        }
    }
    println!("{kernels} kernels with too few registers, {spilled} of them spilled: all as with enough");
    assert!(spilled > kernels / 2, "{spilled} of {kernels} spilled");
}

/// Offsets of rows far apart, all computed before the first is used.
fn offsets() -> Function {
    let mut k = Builder::new("offsets", 32);
    let (x, out) = (k.buffer("x"), k.buffer("out"));
    let lane = k.workitem_id();
    let two = k.int(2);
    let own = k.shl(lane, two);
    // Too far for the offset of an instruction to reach.
    let mut addresses: Vec<Value> = Vec::new();
    for row in 0..60 {
        let step = k.int(row * 10_007 * 4);
        addresses.push(k.add(own, step));
    }
    let mut sum = k.int(1);
    for _ in 0..2 {
        for address in &addresses {
            let value = k.load(k.global(x, *address), Width::Dwords(1), Elem::Int);
            let three = k.int(3);
            let scaled = k.mul(sum, three);
            sum = k.add(scaled, value);
        }
        k.barrier(true);
    }
    k.store(k.global(out, own), Width::Dwords(1), sum);
    k.finish()
}

#[test]
fn cheap_values_are_computed_again() {
    let function = offsets();
    let x = ints(&mut Random(5), 60 * 10_007);
    let args = || [Arg::Buffer(x.clone()), Arg::Fresh(128)];
    for target in TARGETS {
        let roomy =
            compile(&function, target, &Options { schedule: false, ..Options::default() }).expect("compiles");
        assert!(roomy.resources.vgprs > 60, "{}", roomy.resources.vgprs);
        let expected = clean(&roomy, [1, 1], &args()).words(1);
        let options = Options { max_vgprs: 16, schedule: false, ..Options::default() };
        let kernel = compile(&function, target, &options).expect("nothing needs scratch");
        assert_eq!(kernel.resources.scratch_bytes, 0);
        assert!(kernel.resources.vgprs <= 16);
        assert_eq!(clean(&kernel, [1, 1], &args()).words(1), expected, "{target}");
    }
}

/// Without leave to spill, the error says where, how much, and of what.
#[test]
fn pressure_names_the_point_and_the_live_values() {
    for target in TARGETS {
        let Err(CompileError::Pressure(error)) = compiled(&tangle(3), target, 28, false) else {
            panic!("{target}: compiled");
        };
        assert_eq!((error.bank, error.available), (Bank::Vector, 28));
        assert!(error.needed > 28 && error.live.len() > 10, "{error}");
        assert!(error.live.iter().filter(|live| live.value.is_some()).count() > 10, "{error}");
        let text = error.to_string();
        assert!(text.contains("global_load_b") && text.contains('%') && !text.contains('\n'), "{text}");
        assert!(text.contains("registers live, 28 available") && text.ends_with("allow spilling"), "{text}");
    }
}
