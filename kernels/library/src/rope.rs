//! What follows the products of queries, keys and values: head norm, rotation, and the write to the KV cache.
//!
//! One wave a head of a row (grid X heads of all parts, grid Y rows). Products of keys and values come from scratch.

mod launch;

pub(crate) use launch::{Place, batch_values, finish, place, scratch_offset};

use super::RopeTable;
use super::idiom::{Idiom, at};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use doorbell_compiler::ir::{Alu, Axis, Builder, Elem, Function, Value, Width};
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::quant::Type;

/// Heads of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadPart {
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head.
    pub dim: u32,
    /// Whether heads are normalised.
    pub norm: bool,
    /// Pairs that turn, and whether they are neighbours.
    pub rope: Option<(u32, bool)>,
    /// How the cache keeps elements, and bytes of a page with all layers; `None` writes back to the input.
    pub cache: Option<(Type, u64)>,
}

/// Heads of all parts of a projection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HeadFinish {
    /// The parts.
    pub parts: Vec<HeadPart>,
}

/// Arguments of one part beside its products.
pub(crate) struct Arguments {
    norm: Option<(Value, Value)>,
    rope: Option<Value>,
    cache: Option<Value>,
    /// LDS of a head for each wave, where heads are quantised.
    staged: Option<u32>,
}

impl HeadFinish {
    /// Unique name.
    pub(crate) fn name(&self) -> String {
        let mut name = String::from("heads");
        for part in &self.parts {
            let _ = write!(name, "_{}", part.name());
        }
        name
    }

    /// The function.
    pub(crate) fn function(&self) -> Function {
        let mut k = Builder::new(&self.name(), 32);
        let buffers = ["positions", "tables", "pages"].map(|name| k.buffer(name));
        let arguments: Vec<(Value, Arguments)> =
            self.parts.iter().map(|part| (k.buffer("input"), part.arguments(&mut k, 1))).collect();
        let (number, row) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
        let mut before = 0;
        for (part, (input, arguments)) in self.parts.iter().zip(&arguments) {
            let start = k.int(before);
            let head = k.sub(number, start);
            let count = k.int(part.heads);
            let here = k.lt_u(head, count);
            k.when(here, |k| part.body(k, *input, arguments, buffers, [row, head]));
            before += part.heads;
        }
        k.finish()
    }
}

impl HeadPart {
    /// Short name.
    pub(crate) fn name(self) -> String {
        let mut name = format!("{}x{}{}", self.heads, self.dim, if self.norm { "n" } else { "" });
        if let Some((pairs, adjacent)) = self.rope {
            let _ = write!(name, "r{pairs}{}", if adjacent { "a" } else { "h" });
        }
        if let Some((cells, page)) = self.cache {
            let _ = write!(name, "c{cells}_{page}");
        }
        name
    }

    /// Declares the arguments beside the products, for workgroups of `waves`.
    pub(crate) fn arguments(self, k: &mut Builder, waves: u32) -> Arguments {
        let quantised = self.cache.is_some_and(|(cells, _)| cells == Type::Q8_0);
        Arguments {
            norm: self.norm.then(|| (k.buffer("head_norm"), k.scalar("head_eps", Elem::Float))),
            rope: self.rope.map(|_| k.buffer("rope")),
            cache: self.cache.map(|_| k.buffer("cache")),
            staged: quantised.then(|| k.local(4 * self.dim * waves)),
        }
    }

    /// Finishes one head of a row, by one wave. `[positions, tables, pages]` are the batch's buffers.
    #[expect(clippy::too_many_lines, reason = "a kernel reads from top to bottom")]
    pub(crate) fn body(
        self,
        k: &mut Builder,
        input: Value,
        arguments: &Arguments,
        [positions, tables, pages]: [Value; 3],
        [row, head]: [Value; 2],
    ) {
        let place = k.left(row, 2);
        let position = k.read_same(positions, place);
        let start = k.times(row, self.heads);
        let start = k.add(start, head);
        let start = k.times(start, 4 * self.dim);
        let slots = self.slots(k);
        let mut values: Vec<Value> = slots
            .iter()
            .map(|slot| {
                let place = k.left(slot.element, 2);
                let place = k.add(place, start);
                k.read(input, place)
            })
            .collect();
        if let Some((weight, eps)) = arguments.norm {
            let mut sum = k.float(0.0);
            for (value, slot) in values.iter().zip(&slots) {
                let next = k.fma(*value, *value, sum);
                sum = slot.inside.map_or(next, |inside| k.select(inside, next, sum));
            }
            let total = k.reduce_wave(sum, Alu::fadd);
            let share = k.float(1.0 / self.dim as f32);
            let mean = k.fma(total, share, eps);
            let factor = k.rsq(mean);
            for (value, slot) in values.iter_mut().zip(&slots) {
                let place = k.left(slot.element, 2);
                let weight = k.read(weight, place);
                let scaled = k.fmul(*value, factor);
                *value = k.fmul(scaled, weight);
            }
        }
        if let (Some((pairs, _)), Some(table)) = (self.rope, arguments.rope) {
            let bytes = RopeTable { pairs }.position_bytes() as u32;
            let entry = k.times(position, bytes);
            for (pair, slot) in (0..).zip(slots.iter().filter(|slot| slot.first)) {
                let place = k.left(slot.pair, 3);
                let place = k.add(place, entry);
                let turn = k.load(k.global(table, place), Width::Dwords(2), Elem::Float);
                let (cos, sin) = (k.extract(turn, 0), k.extract(turn, 1));
                let (x, y): (Value, Value) = (values[2 * pair], values[2 * pair + 1]);
                let (xs, ys) = (k.fmul(x, sin), k.fmul(y, sin));
                let ys = k.fneg(ys);
                values[2 * pair] = k.fma(x, cos, ys);
                values[2 * pair + 1] = k.fma(y, cos, xs);
            }
        }
        let own = Target { base: input, start, cells: Type::F32 };
        let target = self.target(k, arguments, [tables, pages], [row, head, position]).unwrap_or(own);
        if let Some(staged) = arguments.staged {
            return self.quantise(k, &slots, &values, &target, staged);
        }
        for (value, slot) in values.iter().zip(&slots) {
            let store = |k: &mut Builder| {
                let place = k.left(slot.element, if target.cells == Type::F16 { 1 } else { 2 });
                let place = k.add(place, target.start);
                if target.cells == Type::F16 {
                    let half = k.cvt_h_f(*value);
                    k.store(k.global(target.base, place), Width::U16, half);
                } else {
                    k.write(target.base, place, *value);
                }
            };
            match slot.inside {
                Some(inside) => k.when(inside, store),
                None => store(k),
            }
        }
    }

    /// Where a head's elements are cached.
    fn target(
        self,
        k: &mut Builder,
        arguments: &Arguments,
        [tables, pages]: [Value; 2],
        [row, head, position]: [Value; 3],
    ) -> Option<Target> {
        let ((cells, page_bytes), cache) = self.cache.zip(arguments.cache)?;
        let bytes = cells.row_bytes(self.dim as usize).unwrap_or(0) as u32;
        let page = page_of(k, [tables, pages], row, position);
        let size = k.int(u32::try_from(page_bytes).unwrap_or(u32::MAX));
        let offset = k.wide_mul(page, size);
        let base = k.wide_add(cache, offset);
        let head = k.times(head, PAGE_TOKENS as u32 * bytes);
        let slot = k.mask(position, PAGE_TOKENS as u32 - 1);
        let slot = k.times(slot, bytes);
        let start = k.add(head, slot);
        Some(Target { base, start, cells })
    }

    /// Writes a head as blocks of Q8_0, as core's activations are made. The wave's elements change places in LDS, so
    /// that its lanes have a block.
    fn quantise(self, k: &mut Builder, slots: &[Slot], values: &[Value], target: &Target, staged: u32) {
        let wave = k.wave();
        let row = k.times(wave, 4 * self.dim);
        for (value, slot) in values.iter().zip(slots) {
            let store = |k: &mut Builder| {
                let place = k.left(slot.element, 2);
                let place = k.add(place, row);
                k.store(at(k.lds(place), staged), Width::Dwords(1), *value);
            };
            match slot.inside {
                Some(inside) => k.when(inside, store),
                None => store(k),
            }
        }
        let lane = k.lane();
        let own = k.left(lane, 2);
        let own = k.add(own, row);
        let zero = k.int(0);
        let first = k.eq(lane, zero);
        for block in 0..self.dim / 32 {
            let value = k.load(at(k.lds(own), staged + 128 * block), Width::Dwords(1), Elem::Float);
            let size = k.fabs(value);
            let size = k.bits(size, Elem::Int);
            // As integers, magnitudes have the same order, and what is no number is the largest.
            let size = k.reduce_wave(size, Alu::max_u);
            let size = k.bits(size, Elem::Float);
            let (most, share) = (k.float(127.0), k.float(1.0 / 127.0));
            let scale = quotient(k, size, most, share);
            let inverse = k.rcp(size);
            let inverse = quotient(k, most, size, inverse);
            let code = k.fmul(value, inverse);
            let none = k.float(0.0);
            let empty = k.feq(size, none);
            let code = k.select(empty, none, code);
            let code = k.round_to_int(code);
            let place = k.add(target.start, lane);
            let place = at(k.global(target.base, place), 34 * block + 2);
            k.store(place, Width::U8, code);
            k.when(first, |k| {
                let scale = k.cvt_h_f(scale);
                let place = at(k.global(target.base, target.start), 34 * block);
                k.store(place, Width::U16, scale);
            });
        }
    }

    /// The lane's elements: first both of each of its pairs, then those that do not turn.
    fn slots(self, k: &mut Builder) -> Vec<Slot> {
        let lane = k.lane();
        let (pairs, adjacent) = self.rope.unwrap_or((0, false));
        let mut slots = Vec::new();
        let limited = |k: &mut Builder, number: Value, first: u32, count: u32| {
            if first + 32 <= count {
                return (number, None);
            }
            let (last, all) = (k.int(count - 1), k.int(count));
            let inside = k.lt_u(number, all);
            (k.min_u(number, last), Some(inside))
        };
        for first in (0..pairs).step_by(32) {
            let number = k.plus(lane, first);
            let (pair, inside) = limited(k, number, first, pairs);
            let (x, y) = if adjacent {
                let x = k.left(pair, 1);
                (x, k.plus(x, 1))
            } else {
                (pair, k.plus(pair, pairs))
            };
            slots.push(Slot { element: x, pair, inside, first: true });
            slots.push(Slot { element: y, pair, inside, first: false });
        }
        let rest = self.dim - 2 * pairs;
        for first in (0..rest).step_by(32) {
            let number = k.plus(lane, first);
            let (number, inside) = limited(k, number, first, rest);
            let element = k.plus(number, 2 * pairs);
            slots.push(Slot { element, pair: element, inside, first: false });
        }
        slots
    }
}

/// One element of a lane.
struct Slot {
    element: Value,
    pair: Value,
    /// Whether the lane has it; `None` where all have.
    inside: Option<Value>,
    /// First of a pair.
    first: bool,
}

/// Where a head goes.
struct Target {
    base: Value,
    start: Value,
    cells: Type,
}

/// `a / b` from a rough `1 / b`, rounded to nearest but for rare cases.
fn quotient(k: &mut Builder, a: Value, b: Value, inverse: Value) -> Value {
    let rough = k.fmul(a, inverse);
    let negative = k.fneg(rough);
    let rest = k.fma(negative, b, a);
    k.fma(rest, inverse, rough)
}

/// The page of a row's position, uniform.
pub(crate) fn page_of(k: &mut Builder, [tables, pages]: [Value; 2], row: Value, position: Value) -> Value {
    let place = k.left(row, 2);
    let table = k.load_uniform(k.global(tables, place), Width::Dwords(1), Elem::Int);
    let number = k.right(position, PAGE_TOKENS.trailing_zeros());
    let entry = k.add(table, number);
    let entry = k.left(entry, 2);
    k.load_uniform(at(k.global(pages, entry), 0), Width::Dwords(1), Elem::Int)
}

/// Whether the kernel takes heads of `dim` elements.
pub(crate) fn takes(dim: u32) -> bool {
    (8..=512).contains(&dim) && dim.is_multiple_of(8)
}
