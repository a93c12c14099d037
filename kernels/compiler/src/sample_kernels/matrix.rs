//! One 16x16 tile of a matrix product per wave: A is stored by rows, B by columns, k innermost in both.

use super::vector::shl;
use crate::ir::{Axis, Builder, Counted, Elem, Fragment, Function, MatrixOp, Value, Width};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::{Generation, Target};

/// Memory layout of a fragment of 16 k: bytes of one k, pieces of 16 or 8 bytes and where a lane finds them.
struct Layout {
    /// Bytes of 16 k.
    row_bytes: u32,
    /// Offsets of the pieces, and dwords of each.
    pieces: &'static [(i32, u8)],
    /// Bytes that lanes 16 to 31 start later.
    half_offset: u32,
}

/// gfx11: every lane reads all 16 k, both halves of the wave the same. gfx12: lanes 0-15 hold k 0-3 and 8-11 of
/// f16 (0-7 of bytes), lanes 16-31 the rest.
fn layout(fragment: Fragment, target: Target) -> Layout {
    let gfx12 = target.generation() == Generation::Gfx12;
    match (fragment, gfx12) {
        (Fragment::Half, false) => Layout { row_bytes: 32, pieces: &[(0, 4), (16, 4)], half_offset: 0 },
        (Fragment::Half, true) => Layout { row_bytes: 32, pieces: &[(0, 2), (16, 2)], half_offset: 8 },
        (_, false) => Layout { row_bytes: 16, pieces: &[(0, 4)], half_offset: 0 },
        (_, true) => Layout { row_bytes: 16, pieces: &[(0, 2)], half_offset: 8 },
    }
}

/// The operands and the instruction of a tile.
struct Kind {
    fragment: Fragment,
    op: MatrixOp,
    accumulator: Fragment,
    /// The fragments of the next 16 k are loaded before those of this trip are multiplied.
    pipelined: bool,
}

fn tile(name: &str, kind: &Kind, target: Target) -> Function {
    let mut k = Builder::new(name, 32);
    let (a, b, out) = (k.buffer("a"), k.buffer("b"), k.buffer("out"));
    // Bytes of a row of A and of a column of B, and elements of a row of the result.
    let (row_bytes, width) = (k.scalar("row_bytes", Elem::Int), k.scalar("width", Elem::Int));
    let layout = layout(kind.fragment, target);
    let (tile_row, tile_column) = (k.workgroup_id(Axis::X), k.workgroup_id(Axis::Y));
    let lane = k.workitem_id();
    let (four, fifteen) = (k.int(4), k.int(15));
    let within = k.and(lane, fifteen);
    let half = k.shr(lane, four);
    let start = |k: &mut Builder, tile: Value| {
        let first = k.shl(tile, four);
        let line = k.add(first, within);
        let bytes = k.mul(line, row_bytes);
        let later = k.int(layout.half_offset);
        let own = k.mul24(half, later);
        k.add(bytes, own)
    };
    let (a_start, b_start) = (start(&mut k, tile_row), start(&mut k, tile_column));
    let initial = k.zero_fragment(kind.accumulator);
    let (zero, step) = (k.int(0), k.int(layout.row_bytes));
    let trips = Counted { start: zero, end: row_bytes, step, maybe: false, uniform: 0 };
    let load = |k: &mut Builder, at: Value| {
        let mut piece = |base: Value, start: Value| {
            let offset = k.add(at, start);
            let mut parts: Vec<Value> = vec![];
            for (constant, dwords) in layout.pieces {
                let mut address = k.global(base, offset);
                address.constant = *constant;
                parts.push(k.load(address, Width::Dwords(*dwords), Elem::Int));
            }
            k.fragment(&parts, kind.fragment)
        };
        vec![piece(a, a_start), piece(b, b_start)]
    };
    let sum = if kind.pipelined {
        k.pipelined(trips, &[initial], load, |k, _, loaded, sums| {
            vec![k.matrix(kind.op, loaded[0], loaded[1], sums[0])]
        })[0]
    } else {
        k.counted(trips, &[initial], |k, at, sums| {
            let loaded = load(k, at);
            vec![k.matrix(kind.op, loaded[0], loaded[1], sums[0])]
        })[0]
    };
    store(&mut k, [tile_row, tile_column, within, half], sum, [out, width], target);
    k.finish()
}

/// Writes the accumulator: register r of a lane is row `2r + half` (gfx11) or `r + 8 * half` (gfx12).
fn store(k: &mut Builder, position: [Value; 4], sum: Value, to: [Value; 2], target: Target) {
    let [tile_row, tile_column, within, half] = position;
    let [out, width] = to;
    let gfx12 = target.generation() == Generation::Gfx12;
    let four = k.int(4);
    let first_row = k.shl(tile_row, four);
    let first_column = k.shl(tile_column, four);
    let column = k.add(first_column, within);
    let half_rows = if gfx12 { shl(k, half, 3) } else { half };
    let row = k.add(first_row, half_rows);
    let begin = k.mul(row, width);
    let begin = k.add(begin, column);
    let mut offset = shl(k, begin, 2);
    let step = shl(k, width, if gfx12 { 2 } else { 3 });
    for register in 0..8 {
        let value = k.accumulator(sum, register);
        k.store(k.global(out, offset), Width::Dwords(1), value);
        if register < 7 {
            offset = k.add(offset, step);
        }
    }
}

const HALF: Kind =
    Kind { fragment: Fragment::Half, op: MatrixOp::Half, accumulator: Fragment::FloatAcc, pipelined: false };

/// f16 inputs, f32 result.
pub(super) fn half_tile(target: Target) -> Function {
    tile("wmma_f16_tile", &HALF, target)
}

/// The same with loads ahead.
pub(super) fn half_tile_ahead(target: Target) -> Function {
    tile("wmma_f16_tile_ahead", &Kind { pipelined: true, ..HALF }, target)
}

/// Signed bytes, i32 result.
pub(super) fn byte_tile(target: Target) -> Function {
    let op = MatrixOp::Byte { signed_a: true, signed_b: true };
    let kind = Kind { fragment: Fragment::Byte, op, accumulator: Fragment::IntAcc, pipelined: false };
    tile("wmma_iu8_tile", &kind, target)
}
