//! Block formats in registers: what a lane loads of a row, and the codes, scales and minima that it becomes.
//!
//! A lane takes a unit of 32 weights as two runs of 16 codes; value = scale * code + minimum. Layouts are ggml's, as
//! in `doorbell_core::quant`. Types of plain floats are read by `product` itself.

use super::idiom::{Idiom, at};
use alloc::vec::Vec;
use doorbell_compiler::ir::{Address, Alu, Builder, Elem, Value, Width};
use doorbell_core::quant::Type;

/// 16 weights of a lane.
pub(crate) struct Run {
    /// Four codes each.
    pub(crate) codes: [Value; 4],
    /// Factor, f32.
    pub(crate) scale: Value,
    /// Added, f32.
    pub(crate) minimum: Option<Value>,
}

/// How elements of a row are spread over the lanes of a wave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// 32 consecutive elements a lane.
    Consecutive,
    /// Blocks of 256 over eight lanes; the second run is 32 elements after the first.
    Chunks,
    /// As `Chunks`, but 64 elements after the first.
    Halves,
}

impl Spread {
    /// Elements from the first to the second run.
    pub(crate) fn distance(self) -> u32 {
        match self {
            Self::Consecutive => 16,
            Self::Chunks => 32,
            Self::Halves => 64,
        }
    }

    /// First element of the lane's first run in 1024 elements.
    pub(crate) fn first(self, k: &mut Builder, lane: Value) -> Value {
        let half = k.mask(lane, 1);
        let half = k.left(half, 4);
        let (high, middle) = match self {
            Self::Consecutive => return k.left(lane, 5),
            Self::Chunks => {
                // Lanes 2c and 2c + 1 take elements 64c to 64c + 63.
                let pair = k.right(lane, 1);
                (k.left(pair, 6), None)
            }
            Self::Halves => {
                // Lane bits: block, half of 128, run of 32, half of 16.
                let upper = k.right(lane, 2);
                let run = k.mask(lane, 2);
                (k.left(upper, 7), Some(k.left(run, 4)))
            }
        };
        let sum = k.add(high, half);
        middle.map_or(sum, |middle| k.add(sum, middle))
    }
}

/// Whether weights of a type are read as codes; `None` where no kernel reads them.
pub(crate) fn is_coded(kind: Type) -> Option<bool> {
    match kind {
        Type::F32 | Type::F16 | Type::BF16 => Some(false),
        Type::Q4_0 | Type::Q4_1 | Type::Q5_0 | Type::Q5_1 | Type::Q8_0 | Type::IQ4_NL | Type::MXFP4 => {
            Some(true)
        }
        Type::Q4_K | Type::Q5_K | Type::Q6_K | Type::IQ4_XS => Some(true),
        _ => None,
    }
}

/// Values that [`Format::load`] loads of a unit.
pub(crate) fn values(kind: Type) -> usize {
    match kind {
        Type::Q6_K => 5,
        Type::Q8_0 | Type::Q5_K | Type::Q5_0 | Type::Q5_1 => 3,
        _ => 2,
    }
}

/// One format and a lane's place in it.
pub(crate) struct Format {
    kind: Type,
    /// Whether codes are signed bytes.
    pub(crate) signed: bool,
    /// Where elements are.
    pub(crate) spread: Spread,
    /// Bytes from one trip of a wave (1024 elements) to the next.
    pub(crate) advance: u32,
    /// Bytes of a block.
    block: u32,
    /// Lane numbers that the format needs, by its own order.
    own: Vec<Value>,
    /// Lane holds one of the first four sub-blocks.
    early: Option<Value>,
}

impl Format {
    /// A lane's place in rows of coded weights of `cols` elements.
    pub(crate) fn new(k: &mut Builder, kind: Type, lane: Value) -> Self {
        let block = kind.block_bytes() as u32;
        let long = kind.block_len() == 256;
        let spread = match kind {
            Type::Q4_K | Type::Q5_K => Spread::Chunks,
            Type::Q6_K => Spread::Halves,
            _ => Spread::Consecutive,
        };
        let signed = matches!(kind, Type::Q8_0 | Type::IQ4_NL | Type::IQ4_XS | Type::MXFP4);
        let (mut own, mut early) = (Vec::new(), None);
        if long {
            let part = k.mask(lane, 7);
            own.push(k.left(part, 4));
            match kind {
                Type::Q4_K | Type::Q5_K => {
                    let chunk = k.right(part, 1);
                    let odd = k.mask(chunk, 1);
                    let half = k.mask(part, 1);
                    own.push(k.left(odd, 4));
                    own.push(k.left(half, 4));
                    own.push(k.left(chunk, 1));
                    let two = k.int(2);
                    early = Some(k.lt_u(chunk, two));
                }
                Type::Q6_K => {
                    // Lane bits: half n of 128, run b, half h of 16.
                    let (n, b, h) = (k.right(part, 2), k.mask(part, 2), k.mask(part, 1));
                    let (high, h16) = (k.left(n, 5), k.left(h, 4));
                    own.push(k.add(high, h16));
                    own.push(b);
                    let n8 = k.left(n, 3);
                    let scale = k.add(n8, b);
                    own.push(k.add(scale, h));
                }
                _ => {
                    own.push(k.left(part, 2));
                    own.push(k.left(part, 1));
                }
            }
        }
        let advance = block * if long { 4 } else { 32 };
        Self { kind, signed, spread, advance, block, own, early }
    }

    /// Byte offset of the lane's block in the first trip.
    pub(crate) fn start(&self, k: &mut Builder, lane: Value) -> Value {
        let number = if self.kind.block_len() == 256 { k.right(lane, 3) } else { lane };
        let size = k.int(self.block);
        k.mul24(number, size)
    }

    /// Byte offset of the last block of a row.
    pub(crate) fn last(&self, cols: u32) -> u32 {
        (cols / self.kind.block_len() as u32 - 1) * self.block
    }

    /// The two runs of the lane's unit, whose block starts at `offset`.
    pub(crate) fn unit(&self, k: &mut Builder, base: Value, offset: Value) -> [Run; 2] {
        let loaded = self.load(k, base, offset);
        self.runs(k, &loaded)
    }

    /// What the lane's unit is made of, as it lies in memory: for [`Format::runs`].
    pub(crate) fn load(&self, k: &mut Builder, base: Value, offset: Value) -> Vec<Value> {
        let block = k.global(base, offset);
        match self.kind {
            Type::Q8_0 => {
                let d = k.load(block, Width::U16, Elem::Int);
                let quants = [2, 18].map(|place| k.load(at(block, place), Width::Dwords(4), Elem::Int));
                alloc::vec![d, quants[0], quants[1]]
            }
            Type::Q4_K | Type::Q5_K => {
                let five = self.kind == Type::Q5_K;
                let header = k.load(block, Width::Dwords(4), Elem::Int);
                let own = k.add(offset, self.own[0]);
                let quants = at(k.global(base, own), if five { 48 } else { 16 });
                let mut loaded = alloc::vec![header, k.load(quants, Width::Dwords(4), Elem::Int)];
                if five {
                    let from = k.add(offset, self.own[2]);
                    loaded.push(k.load(at(k.global(base, from), 16), Width::Dwords(4), Elem::Int));
                }
                loaded
            }
            Type::Q6_K => {
                // ql: 64 bytes per half, 32 per run, 16 per lane: the lane's part times 16.
                let from = k.add(offset, self.own[0]);
                let low = k.load(k.global(base, from), Width::Dwords(4), Elem::Int);
                let from = k.add(offset, self.own[1]);
                let high = k.load(at(k.global(base, from), 128), Width::Dwords(4), Elem::Int);
                let from = k.add(offset, self.own[3]);
                let scales =
                    [192, 196].map(|place| k.load(at(k.global(base, from), place), Width::I8, Elem::Int));
                let d = k.load(at(block, 208), Width::U16, Elem::Int);
                alloc::vec![low, high, scales[0], scales[1], d]
            }
            Type::IQ4_XS => {
                let header = k.load(block, Width::Dwords(2), Elem::Int);
                let own = k.add(offset, self.own[0]);
                alloc::vec![header, k.load(at(k.global(base, own), 8), Width::Dwords(4), Elem::Int)]
            }
            kind => short_load(k, kind, block),
        }
    }

    /// The two runs of what [`Format::load`] loaded.
    pub(crate) fn runs(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        match self.kind {
            Type::Q8_0 => eight_bits(k, loaded),
            Type::Q4_K | Type::Q5_K => self.chunks(k, loaded),
            Type::Q6_K => self.six_bits(k, loaded),
            Type::IQ4_XS => self.uneven(k, loaded),
            kind => short(k, kind, loaded),
        }
    }

    fn chunks(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let parts = k.elements(loaded[0], 4);
        let [d, dmin] = k.halves(parts[0]);
        let [scales, minima] = self.sub_scales(k, [parts[1], parts[2], parts[3]]);
        let quants = k.elements(loaded[1], 4);
        let high = loaded.get(2).map(|high| k.elements(*high, 4));
        [0u8, 1].map(|half| {
            let scale = k.byte_to_float(scales, half);
            let scale = k.fmul(scale, d);
            let minimum = k.byte_to_float(minima, half);
            let minimum = k.fmul(minimum, dmin);
            let negative = k.scaled(minimum, -1.0);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, quants[index], half);
                let Some(high) = &high else { return low };
                // The lane's bit of each byte: sub-block 2c or 2c + 1.
                let moved = k.shr(high[index], self.own[3]);
                let moved = k.right(moved, u32::from(half));
                let bits = k.mask(moved, 0x0101_0101);
                let bits = k.left(bits, 4);
                k.or(low, bits)
            });
            Run { codes, scale, minimum: Some(negative) }
        })
    }

    /// Six-bit scales and minima of the lane's two sub-blocks, in the low two bytes.
    fn sub_scales(&self, k: &mut Builder, dwords: [Value; 3]) -> [Value; 2] {
        let [scales, minima, rest] = dwords.map(|dword| k.shr(dword, self.own[1]));
        let late = k.mask(rest, 0x0f0f);
        let rest = k.right(rest, 4);
        let late_minimum = k.mask(rest, 0x0f0f);
        let mut merge = |own: Value, late: Value| {
            let low = k.mask(own, 0x3f3f);
            let high = k.right(own, 2);
            let high = k.mask(high, 0x3030);
            let high = k.or(late, high);
            match self.early {
                Some(early) => k.select(early, low, high),
                None => low,
            }
        };
        [merge(scales, late), merge(minima, late_minimum)]
    }

    fn six_bits(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let d = k.bits(loaded[4], Elem::HalfPair);
        let d = k.cvt_f_h(d);
        let (low, high) = (k.elements(loaded[0], 4), k.elements(loaded[1], 4));
        let mut half = 0u8;
        [loaded[2], loaded[3]].map(|scale| {
            let scale = k.cvt_f_i(scale);
            let scale = k.fmul(scale, d);
            let codes = core::array::from_fn(|index| {
                let low = nibbles(k, low[index], half);
                // Bits 2r and 2r + 1, r = b or b + 2; `own[2]` is 2b.
                let moved = k.shr(high[index], self.own[2]);
                let moved = k.right(moved, 4 * u32::from(half));
                let bits = k.mask(moved, 0x0303_0303);
                let bits = k.left(bits, 4);
                k.or(low, bits)
            });
            half += 1;
            let minimum = k.scaled(scale, -32.0);
            Run { codes, scale, minimum: Some(minimum) }
        })
    }

    fn uneven(&self, k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
        let (header, quants) = (loaded[0], loaded[1]);
        let (first, low) = (k.extract(header, 0), k.extract(header, 1));
        let halves = k.bits(first, Elem::HalfPair);
        let d = k.cvt_f_h(halves);
        let low = k.shr(low, self.own[1]);
        let low = k.mask(low, 15);
        let high = k.right(first, 16);
        let high = k.shr(high, self.own[2]);
        let high = k.mask(high, 3);
        let high = k.left(high, 4);
        let scale = k.or(low, high);
        let bias = k.int(32);
        let scale = k.sub(scale, bias);
        let scale = k.cvt_f_i(scale);
        let scale = k.fmul(scale, d);
        let quants = k.elements(quants, 4);
        [0, 1].map(|half| looked_up(k, &quants, half, UNEVEN, scale))
    }
}

/// `kvalues_iq4nl`, four codes a dword.
const UNEVEN: [u32; 4] = [0xbfad_9881, 0xf6ea_ddcf, 0x2619_0d01, 0x7159_4535];
/// E2M1 values, doubled.
const MICRO: [u32; 4] = [0x0302_0100, 0x0c08_0604, 0xfdfe_ff00, 0xf4f8_fafc];

/// Low or high nibbles of four bytes.
fn nibbles(k: &mut Builder, quants: Value, half: u8) -> Value {
    let moved = k.right(quants, 4 * u32::from(half));
    k.mask(moved, 0x0f0f_0f0f)
}

/// A run of codes that stand for entries of a table of sixteen bytes.
fn looked_up(k: &mut Builder, quants: &[Value], half: u8, table: [u32; 4], scale: Value) -> Run {
    let entries = table.map(|entries| k.int(entries));
    let codes = core::array::from_fn(|index| {
        let numbers = nibbles(k, quants[index], half);
        let place = k.mask(numbers, 0x0707_0707);
        let low = k.alu(Alu::perm, &[entries[1], entries[0], place]);
        let high = k.alu(Alu::perm, &[entries[3], entries[2], place]);
        // Bit 3 of a number takes the byte from `high`.
        let bits = k.right(numbers, 1);
        let (four, own) = (k.int(0x0404_0404), k.int(0x0302_0100));
        let bits = k.and(bits, four);
        let choice = k.or(bits, own);
        k.alu(Alu::perm, &[high, low, choice])
    });
    Run { codes, scale, minimum: None }
}

fn eight_bits(k: &mut Builder, loaded: &[Value]) -> [Run; 2] {
    let (d, quants) = (loaded[0], [loaded[1], loaded[2]]);
    let d = k.bits(d, Elem::HalfPair);
    let scale = k.cvt_f_h(d);
    quants.map(|quants| {
        let codes = core::array::from_fn(|index| k.extract(quants, index as u8));
        Run { codes, scale, minimum: None }
    })
}

/// Blocks of 32 elements in nibbles: header, nibbles, the fifth bits where there are any.
fn short_load(k: &mut Builder, kind: Type, block: Address) -> Vec<Value> {
    let width = match kind {
        Type::MXFP4 => Width::U8,
        Type::Q4_1 | Type::Q5_1 => Width::Dwords(1),
        _ => Width::U16,
    };
    let header = k.load(block, width, Elem::Int);
    let head = kind.block_bytes() as u32 - 16;
    let mut loaded = alloc::vec![header, k.load(at(block, head), Width::Dwords(4), Elem::Int)];
    if matches!(kind, Type::Q5_0 | Type::Q5_1) {
        loaded.push(k.load(at(block, head - 4), Width::Dwords(1), Elem::Int));
    }
    loaded
}

fn short(k: &mut Builder, kind: Type, loaded: &[Value]) -> [Run; 2] {
    let (header, quants, high) = (loaded[0], loaded[1], loaded.get(2).copied());
    let quants = k.elements(quants, 4);
    let (scale, minimum) = scales(k, kind, header);
    [0u8, 1].map(|half| {
        match kind {
            Type::IQ4_NL => return looked_up(k, &quants, half, UNEVEN, scale),
            Type::MXFP4 => return looked_up(k, &quants, half, MICRO, scale),
            _ => {}
        }
        let codes = core::array::from_fn(|index| {
            let low = nibbles(k, quants[index], half);
            let Some(high) = high else { return low };
            // Four bits to the bit 4 of four bytes.
            let bits = k.bfe(high, 16 * u32::from(half) + 4 * index as u32, 4);
            let spread = k.int(0x0020_4081);
            let bits = k.mul24(bits, spread);
            let bits = k.mask(bits, 0x0101_0101);
            let bits = k.left(bits, 4);
            k.or(low, bits)
        });
        Run { codes, scale, minimum }
    })
}

/// Scale and minimum of a short block.
fn scales(k: &mut Builder, kind: Type, header: Value) -> (Value, Option<Value>) {
    if kind == Type::MXFP4 {
        // 2^(e - 128): two subnormals, then exponents.
        let (two, one) = (k.int(2), k.int(1));
        let least = k.int(0x0020_0000);
        let small = k.shl(least, header);
        let exponent = k.sub(header, one);
        let normal = k.left(exponent, 23);
        let tiny = k.lt_u(header, two);
        let bits = k.select(tiny, small, normal);
        return (k.bits(bits, Elem::Float), None);
    }
    if matches!(kind, Type::Q4_1 | Type::Q5_1) {
        let [d, m] = k.halves(header);
        return (d, Some(m));
    }
    let halves = k.bits(header, Elem::HalfPair);
    let d = k.cvt_f_h(halves);
    let bias = match kind {
        Type::Q4_0 => -8.0,
        Type::Q5_0 => -16.0,
        _ => return (d, None),
    };
    let minimum = k.scaled(d, bias);
    (d, Some(minimum))
}
