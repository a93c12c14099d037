//! Q4_K: 256 weights in 144 bytes (f16 d and dmin, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles).

use super::vector::shl;
use crate::ir::{Address, Alu, Axis, Builder, Counted, Elem, Function, Value, Width};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_isa::Target;

/// Bytes of a block of 256 weights.
const BLOCK: u32 = 144;
/// Bytes of a Q8_1 block of 32 activations: f16 d, f16 sum, 32 signed bytes.
const ACTIVATIONS: u32 = 36;

/// `address` moved by a constant.
fn at(address: Address, constant: i32) -> Address {
    Address { constant: address.constant + constant, ..address }
}

/// d and dmin as floats from the first dword of a block.
fn block_scales(k: &mut Builder, header: Value) -> (Value, Value) {
    let halves = k.bits(header, Elem::HalfPair);
    let d = k.cvt_f_h(halves);
    let sixteen = k.int(16);
    let high = k.shr(header, sixteen);
    let high = k.bits(high, Elem::HalfPair);
    (d, k.cvt_f_h(high))
}

/// Six-bit scale and minimum of sub-block `pair` (a lane's number, 0 to 7) from the three scale dwords: the first
/// four lie in the low six bits of bytes, the others in nibbles of the third dword with their two high bits above
/// the first four.
fn sub_scales(k: &mut Builder, dwords: [Value; 3], pair: Value) -> (Value, Value) {
    let (three, four) = (k.int(3), k.int(4));
    let low = k.and(pair, three);
    let shift = k.shl(low, three);
    let byte = |k: &mut Builder, dword: Value| k.shr(dword, shift);
    let [scales, minima, both] = dwords;
    let (scale, minimum, rest) = (byte(k, scales), byte(k, minima), byte(k, both));
    let (mask6, mask4, mask2) = (k.int(63), k.int(15), k.int(0x30));
    let two = k.int(2);
    let first = k.lt_u(pair, four);
    let (scale_low, minimum_low) = (k.and(scale, mask6), k.and(minimum, mask6));
    let high = |k: &mut Builder, byte: Value| {
        let bits = k.shr(byte, two);
        k.and(bits, mask2)
    };
    let (scale_bits, minimum_bits) = (high(k, scale), high(k, minimum));
    let rest_low = k.and(rest, mask4);
    let scale_high = k.or(rest_low, scale_bits);
    let nibble = k.bfe(rest, 4, 4);
    let minimum_high = k.or(nibble, minimum_bits);
    (k.select(first, scale_low, scale_high), k.select(first, minimum_low, minimum_high))
}

/// `out[i] = dequantized block weights`: one wave per block, eight weights a lane.
pub(super) fn dequantize(_target: Target) -> Function {
    let mut k = Builder::new("q4k_dequantize", 32);
    let (blocks, out) = (k.buffer("blocks"), k.buffer("out"));
    let group = k.workgroup_id(Axis::X);
    let lane = k.workitem_id();
    let size = k.int(BLOCK);
    let block = k.mul(group, size);
    let header = k.load(k.global(blocks, block), Width::Dwords(4), Elem::Int);
    let parts: Vec<Value> = (0..4).map(|index| k.extract(header, index)).collect();
    let (d, dmin) = block_scales(&mut k, parts[0]);
    // Lane l holds bytes 4l to 4l+3: low nibbles belong to sub-block 2 * (l / 8), high ones to the next.
    let three = k.int(3);
    let chunk = k.shr(lane, three);
    let pair = shl(&mut k, chunk, 1);
    let own = shl(&mut k, lane, 2);
    let from = k.add(block, own);
    let quants = k.load(at(k.global(blocks, from), 16), Width::Dwords(1), Elem::Int);
    let four = k.int(4);
    let mask = k.int(0x0f0f_0f0f);
    let seven = k.int(7);
    let within = k.and(lane, seven);
    let bytes = shl(&mut k, within, 4);
    let eight = shl(&mut k, chunk, 8);
    let column = k.add(eight, bytes);
    let ten = k.int(10);
    let row = k.shl(group, ten);
    let first = k.add(row, column);
    for half in 0..2u32 {
        let number = k.int(half);
        let sub = k.add(pair, number);
        let (scale, minimum) = sub_scales(&mut k, [parts[1], parts[2], parts[3]], sub);
        let (scale, minimum) = (k.cvt_f_u(scale), k.cvt_f_u(minimum));
        let scale = k.fmul(scale, d);
        let minimum = k.fmul(minimum, dmin);
        let nibbles = if half == 0 { quants } else { k.shr(quants, four) };
        let nibbles = k.and(nibbles, mask);
        let mut values = vec![];
        for index in 0..4 {
            let q = k.byte_to_float(nibbles, index);
            let product = k.fmul(q, scale);
            values.push(k.fsub(product, minimum));
        }
        let values = k.pack(&values);
        k.store(at(k.global(out, first), 128 * half.cast_signed()), Width::Dwords(4), values);
    }
    k.finish()
}

/// Adds 16 weights of a sub-block times 16 activations to a sum: `d_x * (scale * q.x - minimum * sum(x))`.
/// `loaded` are the activation block's header and the lane's bytes.
fn sub_block(
    k: &mut Builder,
    high: bool,
    nibbles: Value,
    loaded: [Value; 2],
    scales: [Value; 2],
    sum: Value,
) -> Value {
    let [header, bytes] = loaded;
    let (mask, four, all_ones) = (k.int(0x0f0f_0f0f), k.int(4), k.int(0x0101_0101));
    let mut products = k.int(0);
    let mut ones = k.int(0);
    for index in 0..4 {
        let quants = k.extract(nibbles, index);
        let quants = if high { k.shr(quants, four) } else { quants };
        let quants = k.and(quants, mask);
        let activation = k.extract(bytes, index);
        products = k.dot4(false, true, [quants, activation, products]);
        ones = k.dot4(false, true, [all_ones, activation, ones]);
    }
    let (products, ones) = (k.cvt_f_i(products), k.cvt_f_i(ones));
    let less = k.fmul(ones, scales[1]);
    let product = k.fmul(products, scales[0]);
    let value = k.fsub(product, less);
    let halves = k.bits(header, Elem::HalfPair);
    let activation_scale = k.cvt_f_h(halves);
    k.fma(value, activation_scale, sum)
}

/// Byte offsets of a lane's data in the matrix-vector product, as far as they stay the same from trip to trip.
struct Addresses {
    weights: Value,
    activations: Value,
    /// The lane's block of the row, and its 16 bytes of nibbles in it.
    base: Value,
    own_bytes: Value,
    /// The lane's pair of activation blocks, and its half of 16 bytes.
    activation_base: Value,
    half_bytes: Value,
}

/// Loads of a trip that starts at block `block`: block header, nibbles, and for each of two sub-blocks the header and
/// bytes of the activations.
fn fetch(k: &mut Builder, addresses: &Addresses, block: Value) -> Vec<Value> {
    let (size, eight_blocks) = (k.int(BLOCK), k.int(8 * ACTIVATIONS));
    let ahead = k.mul(block, size);
    let here = k.add(addresses.base, ahead);
    let mut loaded = vec![k.load(k.global(addresses.weights, here), Width::Dwords(4), Elem::Int)];
    let from = k.add(here, addresses.own_bytes);
    loaded.push(k.load(at(k.global(addresses.weights, from), 16), Width::Dwords(4), Elem::Int));
    let moved = k.mul(block, eight_blocks);
    let x = k.add(addresses.activation_base, moved);
    let x_own = k.add(x, addresses.half_bytes);
    for number in 0..2 {
        let [header, bytes] = [x, x_own]
            .map(|offset| at(k.global(addresses.activations, offset), number * ACTIVATIONS.cast_signed()));
        loaded.push(k.load(header, Width::Dwords(1), Elem::Int));
        loaded.push(k.load(at(bytes, 4), Width::Dwords(4), Elem::Int));
    }
    loaded
}

/// The sum with the weights of a trip; `subs` are the numbers of the lane's sub-blocks.
fn add_trip(k: &mut Builder, loaded: &[Value], subs: [Value; 2], mut sum: Value) -> Value {
    let parts: Vec<Value> = (0..4).map(|index| k.extract(loaded[0], index)).collect();
    let (d, dmin) = block_scales(k, parts[0]);
    for (number, sub) in subs.into_iter().enumerate() {
        let (scale, minimum) = sub_scales(k, [parts[1], parts[2], parts[3]], sub);
        let (scale, minimum) = (k.cvt_f_u(scale), k.cvt_f_u(minimum));
        let scales = [k.fmul(scale, d), k.fmul(minimum, dmin)];
        let activations = [loaded[2 + 2 * number], loaded[3 + 2 * number]];
        sum = sub_block(k, number == 1, loaded[1], activations, scales, sum);
    }
    sum
}

/// `out[row] = weights[row] . activations`: one wave per row, eight lanes per block, so four blocks a trip. Each lane
/// takes 16 bytes of nibbles: 16 weights of each of two sub-blocks.
fn matrix_vector(name: &str, pipelined: bool) -> Function {
    let mut k = Builder::new(name, 32);
    let (weights, activations, out) = (k.buffer("weights"), k.buffer("activations"), k.buffer("out"));
    let blocks = k.scalar("blocks", Elem::Int);
    let row = k.workgroup_id(Axis::X);
    let lane = k.workitem_id();
    let (one, three, seven) = (k.int(1), k.int(3), k.int(7));
    let own_block = k.shr(lane, three);
    let part = k.and(lane, seven);
    // Lanes 2c and 2c+1 share the 32 bytes of sub-blocks 2c and 2c+1.
    let chunk = k.shr(part, one);
    let half = k.and(part, one);
    let first_sub = shl(&mut k, chunk, 1);
    let second_sub = k.or(first_sub, one);
    let size = k.int(BLOCK);
    let row_blocks = k.mul(row, blocks);
    let row_start = k.mul(row_blocks, size);
    let lane_start = k.mul24(own_block, size);
    let base = k.add(row_start, lane_start);
    let own_bytes = shl(&mut k, part, 4);
    let eight_blocks = k.int(8 * ACTIVATIONS);
    let block_activations = k.mul24(own_block, eight_blocks);
    let two_blocks = k.int(2 * ACTIVATIONS);
    let pair_activations = k.mul24(chunk, two_blocks);
    let activation_base = k.add(block_activations, pair_activations);
    let half_bytes = shl(&mut k, half, 4);
    let addresses = Addresses { weights, activations, base, own_bytes, activation_base, half_bytes };
    let (start, step) = (k.int(0), k.int(4));
    let zero = k.float(0.0);
    let subs = [first_sub, second_sub];
    let trips = Counted { start, end: blocks, step, maybe: false, uniform: 0 };
    let load = |k: &mut Builder, block| fetch(k, &addresses, block);
    let total = if pipelined {
        k.pipelined(trips, &[zero], load, |k, _, loaded, sums| vec![add_trip(k, loaded, subs, sums[0])])[0]
    } else {
        k.counted(trips, &[zero], |k, block, sums| {
            let loaded = load(k, block);
            vec![add_trip(k, &loaded, subs, sums[0])]
        })[0]
    };
    let total = k.reduce_wave(total, Alu::fadd);
    let none = k.int(0);
    let leader = k.eq(lane, none);
    k.when(leader, |k| {
        let offset = shl(k, row, 2);
        k.store(k.global(out, offset), Width::Dwords(1), total);
    });
    k.finish()
}

/// The loads of a trip before its sums.
pub(super) fn gemv(_target: Target) -> Function {
    matrix_vector("q4k_q8_gemv", false)
}

/// The loads of the next trip before the sums of this one.
pub(super) fn gemv_ahead(_target: Target) -> Function {
    matrix_vector("q4k_q8_gemv_ahead", true)
}
