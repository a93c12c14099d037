//! The results of the group kernels of `tests/opencl/soft/programs.cl`, in plain Rust.
//!
//! Item kernels have their expectation from the same C source on the host (`items.txt`).

/// A kernel: its name and the 256 output words for 256 input words.
pub(crate) type Reference = (&'static str, fn(&[u32]) -> Vec<u32>);

pub(crate) static REFERENCES: &[Reference] = &[
    ("lds_reverse", |input| groups(input, |group| group.iter().rev().copied().collect())),
    ("lds_reduce", |input| groups(input, |group| vec![sum(group); 64])),
    ("lds_scan", |input| groups(input, |group| (1..=64).map(|len| sum(&group[..len])).collect())),
    ("lds_sort", |input| {
        groups(input, |group| {
            let mut sorted = group.to_vec();
            sorted.sort_unstable();
            sorted
        })
    }),
    ("lds_histogram", |input| groups(input, histogram)),
    ("lds_transpose", |input| {
        groups(input, |group| (0..64).map(|at| (unit(group[at % 8 * 8 + at / 8]) * 2.0).to_bits()).collect())
    }),
    ("lds_wide", |input| groups(input, wide)),
    ("global_atomics", global_atomics),
    ("compare_exchange", |input| {
        let mut out: Vec<u32> = input.iter().map(|word| word & 0xffff).collect();
        for (slot, out) in out.iter_mut().enumerate().take(4) {
            *out = input.iter().skip(slot).step_by(4).map(|word| word & 0xffff).sum();
        }
        out
    }),
    ("wave_ballot", |input| waves(input, ballot)),
    ("wave_swizzle", |input| waves(input, swizzle)),
    ("dot_bytes", dot_bytes),
    ("half_dot", half_dot),
    ("matrix_half", |input| groups(input, matrix_half)),
    ("matrix_bytes", |input| groups(input, matrix_bytes)),
];

fn groups(input: &[u32], one: fn(&[u32]) -> Vec<u32>) -> Vec<u32> {
    input.chunks(64).flat_map(one).collect()
}

fn waves(input: &[u32], one: fn(&[u32]) -> Vec<u32>) -> Vec<u32> {
    input.chunks(32).flat_map(one).collect()
}

fn sum(words: &[u32]) -> u32 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

fn unit(word: u32) -> f32 {
    f32::from_bits(word & 0x807f_ffff | 0x3f80_0000)
}

fn histogram(group: &[u32]) -> Vec<u32> {
    let mut bins = vec![0; 64];
    for word in group {
        for byte in word.to_le_bytes() {
            bins[usize::from(byte & 63)] += 1;
        }
    }
    bins
}

fn wide(group: &[u32]) -> Vec<u32> {
    (0..64)
        .map(|at| {
            let from = (at * 5 + 1) & 63;
            let value = u64::from(group[from]) << 17 | from as u64;
            value as u32 ^ (value >> 32) as u32 ^ (group[at ^ 1] & 0xff)
        })
        .collect()
}

fn global_atomics(input: &[u32]) -> Vec<u32> {
    let mut out = input.to_vec();
    out[..64].fill(0);
    for (at, word) in input.iter().enumerate() {
        let slot = at & 15;
        out[slot] = out[slot].wrapping_add(*word);
        out[16 + slot] = out[16 + slot].max(*word);
        out[32 + slot] |= word & 0xff;
        out[48 + slot] ^= word;
    }
    out
}

fn ballot(wave: &[u32]) -> Vec<u32> {
    let mask = (0..32).fold(0u32, |mask, lane| mask | (wave[lane] & 1) << lane);
    (0..32).map(|lane| mask ^ (mask & ((1 << lane) - 1)).count_ones() ^ wave[0]).collect()
}

fn swizzle(wave: &[u32]) -> Vec<u32> {
    (0..32)
        .map(|lane| {
            // The work-item number, not the lane, addresses the permute; both agree modulo 32 words.
            let permuted = wave[((lane * 12 + 4) & 127) / 4];
            let swapped = wave[lane ^ 16];
            let shifted = if lane % 16 == 0 { wave[lane] } else { wave[lane - 1] };
            let crossed = wave[lane ^ 1];
            let select: u64 = 0xfedc_ba98_7654_3210;
            let other = wave[(lane & 16 ^ 16) + (select >> (lane % 16 * 4) & 15) as usize];
            permuted ^ swapped.wrapping_mul(3) ^ shifted.wrapping_mul(5) ^ crossed.wrapping_mul(7) ^ other
        })
        .collect()
}

fn dot(a: u32, b: u32, width: u32, sign_a: bool, sign_b: bool, start: i64) -> u32 {
    let part = |word: u32, at: u32, signed: bool| {
        let raised = word << (32 - width * (at + 1));
        if signed {
            i64::from(raised.cast_signed() >> (32 - width))
        } else {
            i64::from(raised >> (32 - width))
        }
    };
    (0..32 / width).map(|at| part(a, at, sign_a) * part(b, at, sign_b)).sum::<i64>().wrapping_add(start)
        as u32
}

fn dot_bytes(input: &[u32]) -> Vec<u32> {
    (0..256)
        .map(|at| {
            let (a, b) = (input[at], input[(at * 7 + 3) % 256]);
            dot(a, b, 8, true, true, 100)
                ^ dot(a, b, 8, false, true, -5).wrapping_mul(3)
                ^ dot(a, b, 8, false, false, 7).wrapping_mul(5)
                ^ dot(a, b, 4, true, false, 9).wrapping_mul(7)
        })
        .collect()
}

fn half_dot(input: &[u32]) -> Vec<u32> {
    input
        .iter()
        .map(|word| {
            // Small integers: halves hold every intermediate value exactly.
            let a = [(word & 31) as f32, (word >> 5 & 31) as f32];
            let b = [(word >> 10 & 15) as f32, -3.0];
            let dot = a[0] * b[0] + a[1] * b[1] + 0.5;
            let c = [a[0] * b[0] + a[0], a[1] * b[1] + a[1]];
            dot.to_bits() ^ c[0].to_bits().wrapping_mul(3) ^ c[1].to_bits().wrapping_mul(5)
        })
        .collect()
}

/// Register `v` of lane `l` as the kernels fold it: which row it holds depends on the chip, so the fold is of rows.
fn fold(gfx12: bool, result: &[[u32; 16]; 16]) -> Vec<u32> {
    let row = |v: usize, lane: usize| if gfx12 { v + 8 * (lane / 16) } else { 2 * v + lane / 16 };
    let at = |v: usize, lane: usize| result[row(v, lane)][lane % 16];
    (0..64)
        .map(|word| {
            let (v, lane) = (word / 32, word % 32);
            at(v, lane)
                ^ at(v + 2, lane).wrapping_mul(3)
                ^ at(v + 4, lane).wrapping_mul(5)
                ^ at(v + 6, lane).wrapping_mul(7)
        })
        .collect()
}

fn matrix_half(group: &[u32]) -> Vec<u32> {
    matrix_half_for(group, false)
}

fn matrix_half_for(group: &[u32], gfx12: bool) -> Vec<u32> {
    let value = |base: usize, line: usize, k: usize| {
        let word = group[base + line * 2 % 32 + k / 8 % 2];
        (word >> (k % 4 * 8) & 15) as f32
    };
    let mut result = [[0; 16]; 16];
    for (row, slots) in result.iter_mut().enumerate() {
        for (column, slot) in slots.iter_mut().enumerate() {
            let products = (0..16).map(|k| value(0, row, k) * value(32, column, k));
            *slot = ((row * 16 + column) as f32 + products.sum::<f32>()).to_bits();
        }
    }
    fold(gfx12, &result)
}

fn matrix_bytes(group: &[u32]) -> Vec<u32> {
    matrix_bytes_for(group, false)
}

fn matrix_bytes_for(group: &[u32], gfx12: bool) -> Vec<u32> {
    let byte =
        |line: usize, k: usize, shift: usize| group[(line * 4 + k / 4 + shift) % 64].to_le_bytes()[k % 4];
    let mut result = [[0; 16]; 16];
    for (row, slots) in result.iter_mut().enumerate() {
        for (column, slot) in slots.iter_mut().enumerate() {
            let products =
                (0..16).map(|k| i32::from(byte(row, k, 0).cast_signed()) * i32::from(byte(column, k, 21)));
            *slot = (row as i32 * 16 + column as i32 - 100 + products.sum::<i32>()).cast_unsigned();
        }
    }
    fold(gfx12, &result)
}

/// The expectation of a group kernel on a chip.
pub(crate) fn expected(name: &str, input: &[u32], gfx12: bool) -> Option<Vec<u32>> {
    match (name, gfx12) {
        ("matrix_half", true) => {
            Some(input.chunks(64).flat_map(|group| matrix_half_for(group, true)).collect())
        }
        ("matrix_bytes", true) => {
            Some(input.chunks(64).flat_map(|group| matrix_bytes_for(group, true)).collect())
        }
        _ => REFERENCES.iter().find(|reference| reference.0 == name).map(|reference| reference.1(input)),
    }
}
