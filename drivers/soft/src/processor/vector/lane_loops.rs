//! Macros that make a handler of an expression on one lane.
//!
//! Not here: the handlers.

/// A handler that applies an expression to every lane. The loops call nothing and write to what nobody else sees, or
/// the host's vector unit would not be used: iterators of the standard library are compiled without it.
macro_rules! per_lane {
    (|$env:ident, $a:ident| $body:expr) => {
        |$env, s, out| {
            let [a, _, _] = *s;
            $env.simd.run(
                #[inline(always)]
                move || {
                    let mut value = [0; 32];
                    let mut lane = 0;
                    while lane < 32 {
                        let $a = a[lane];
                        value[lane] = $body;
                        lane += 1;
                    }
                    *out = value;
                },
            )
        }
    };
    (|$env:ident, $a:ident, $b:ident| $body:expr) => {
        |$env, s, out| {
            let [a, b, _] = *s;
            $env.simd.run(
                #[inline(always)]
                move || {
                    let mut value = [0; 32];
                    let mut lane = 0;
                    while lane < 32 {
                        let ($a, $b) = (a[lane], b[lane]);
                        value[lane] = $body;
                        lane += 1;
                    }
                    *out = value;
                },
            )
        }
    };
    (|$env:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {
        |$env, s, out| {
            let [a, b, c] = *s;
            $env.simd.run(
                #[inline(always)]
                move || {
                    let mut value = [0; 32];
                    let mut lane = 0;
                    while lane < 32 {
                        let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                        value[lane] = $body;
                        lane += 1;
                    }
                    *out = value;
                },
            )
        }
    };
    (|$env:ident, $a:ident, $b:ident; $d:ident| $body:expr) => {
        |$env, s, out| {
            let [a, b, _] = *s;
            $env.simd.run(
                #[inline(always)]
                move || {
                    let mut value = *out;
                    let mut lane = 0;
                    while lane < 32 {
                        let ($a, $b, $d) = (a[lane], b[lane], &value[lane]);
                        value[lane] = $body;
                        lane += 1;
                    }
                    *out = value;
                },
            )
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
        |env, s| {
            let (a, b) = (&s[0], &s[1]);
            env.simd.run(
                #[inline(always)]
                move || {
                    let mut bits = [0; 32];
                    let mut lane = 0;
                    while lane < 32 {
                        let ($a, $b) = (a[lane], b[lane]);
                        bits[lane] = u32::from($body) << lane;
                        lane += 1;
                    }
                    let mut mask = 0;
                    let mut lane = 0;
                    while lane < 32 {
                        mask |= bits[lane];
                        lane += 1;
                    }
                    mask
                },
            )
        }
    };
}

pub(super) use {mask_of, per_lane, wide};
