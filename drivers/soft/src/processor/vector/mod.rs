//! Vector instructions: how operands reach the handlers and results come back, and the handlers by format.
//!
//! Not here: memory instructions (`memory_ops`), what a name means to the decoder (doorbell-isa).

mod arithmetic;
mod compare;
mod convert;
mod divide;
mod dot;
mod double;
mod half;
mod integer;
mod lanes;
mod matrix;
mod minmax;
mod operands;
mod packed;
mod small;
mod sparse;
mod table;
mod transcendental;

pub(crate) use operands::{Env, execute, store};

/// Number handling that scalar instructions share.
pub(crate) mod number {
    pub(crate) use super::compare::ACCEPTS;
    pub(crate) use super::convert::{from_int, to_i32, to_u32};
    pub(crate) use super::integer::{cls, clz, ctz};
    pub(crate) use super::minmax::{legacy, number, propagating};
}

pub(crate) use table::find;

/// A handler that applies an expression to every lane.
macro_rules! per_lane {
    (|$env:ident, $a:ident| $body:expr) => {
        |$env, s, out| {
            for (out, &$a) in out.iter_mut().zip(s[0]) {
                *out = $body;
            }
        }
    };
    (|$env:ident, $a:ident, $b:ident| $body:expr) => {
        |$env, s, out| {
            for ((out, &$a), &$b) in out.iter_mut().zip(s[0]).zip(s[1]) {
                *out = $body;
            }
        }
    };
    (|$env:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {
        |$env, s, out| {
            for (((out, &$a), &$b), &$c) in out.iter_mut().zip(s[0]).zip(s[1]).zip(s[2]) {
                *out = $body;
            }
        }
    };
    (|$env:ident, $a:ident, $b:ident; $d:ident| $body:expr) => {
        |$env, s, out| {
            for (($d, &$a), &$b) in out.iter_mut().zip(s[0]).zip(s[1]) {
                *$d = $body;
            }
        }
    };
}

/// A handler on 64-bit lanes.
macro_rules! wide {
    (|$env:ident, $s:ident| $body:expr) => {
        |$env, all, out| {
            for (lane, out) in out.iter_mut().enumerate() {
                let $s = [all[0][lane], all[1][lane], all[2][lane]];
                *out = $body;
            }
        }
    };
}

/// A comparison handler.
macro_rules! mask_of {
    (|$a:ident, $b:ident| $body:expr) => {
        |_, s| {
            let mut mask = 0;
            for lane in 0..32 {
                let ($a, $b) = (s[0][lane], s[1][lane]);
                mask |= u32::from($body) << lane;
            }
            mask
        }
    };
}

pub(crate) use {mask_of, per_lane, wide};
