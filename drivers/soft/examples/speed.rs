//! Wave instructions per second of processor time: loops bound by vector arithmetic, memory and a mix, fast and strict.
//!
//! Arguments: a part of a loop's name, how many times the loops run (20,000), and `fast` for that level alone.

use doorbell_isa::{Inst, Operand, Target, encode, op, s, s_range, v, v_range};
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Dispatch, Engine, Level, Options};

fn words(code: &[Inst]) -> Vec<u8> {
    let encoded = code.iter().map(|inst| encode(inst, Target::Gfx1100).expect("valid"));
    encoded
        .flat_map(|code| code.words().iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
        .collect()
}

/// A loop around `body`, `times` times.
fn looped(body: &[Inst], times: i32) -> Vec<Inst> {
    let imm = Operand::Immediate;
    let mut code = vec![
        Inst::new(op::v_lshlrev_b32, [v(10), Operand::int(2), v(0)]),
        Inst::new(op::s_mov_b32, [s(10), Operand::int(times)]),
        Inst::new(op::s_mov_b32, [s(3), Operand::int(15)]),
    ];
    for number in (1..9).chain(24..32) {
        code.push(Inst::new(op::v_mov_b32, [v(number), Operand::float(1.5)]));
    }
    code.extend_from_slice(body);
    let length: usize =
        body.iter().map(|inst| encode(inst, Target::Gfx1100).expect("valid").words().len()).sum();
    code.push(Inst::new(op::s_sub_u32, [s(10), s(10), Operand::int(1)]));
    code.push(Inst::new(op::s_cmp_lg_u32, [s(10), Operand::int(0)]));
    code.push(Inst::new(op::s_cbranch_scc1, [imm(-(length as i32) - 3)]));
    code.push(Inst::new(op::s_endpgm, [imm(0)]));
    code
}

/// Nanoseconds that this thread has run, as Linux counts them.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|first| first.parse().ok()).expect("a number")
}

fn measure(name: &str, body: &[Inst], level: Level, times: i32) {
    let mut space = Space::new();
    let code = space.allocate("code", 4096).expect("memory");
    code.write(0, &words(&looped(body, times)));
    let data = space.allocate("data", 8192).expect("memory");
    let dispatch = Dispatch {
        name: name.into(),
        entry: code.address(),
        grid: [64, 1, 1],
        group: [64, 1, 1],
        lds: 4096,
        vgprs: 32,
        user: vec![data.address() as u32, (data.address() >> 32) as u32],
        user_defined: 3,
        ids: [true, false, false],
        mode: 0x3f0,
        ..Dispatch::default()
    };
    let mut engine = Engine::new(Target::Gfx1100, Options { level, ..Options::default() });
    let start = processor_time();
    let report = engine.run(&[dispatch], &mut space).expect("runs");
    let seconds = (processor_time() - start) as f64 / 1e9;
    let rate = report.instructions as f64 / seconds / 1e6;
    println!("{name:8} {level:?}: {rate:6.1} M wave instructions/s ({} findings)", report.findings.len());
}

fn main() {
    let fma = |to: u8, a: u8, b: u8| Inst::new(op::v_fmac_f32, [v(to), v(a), v(b)]);
    let add = |to: u8, a: u8, b: u8| Inst::new(op::v_add_nc_u32, [v(to), v(a), v(b)]);
    let valu = [
        fma(1, 2, 3),
        add(4, 5, 6),
        fma(2, 3, 4),
        add(5, 6, 7),
        fma(3, 4, 5),
        add(6, 7, 8),
        fma(7, 8, 1),
        add(8, 1, 2),
    ];
    let mul = |to: u8, a: u8, b: u8| Inst::new(op::v_mul_f32, [v(to), v(a), v(b)]);
    let simple = [mul(1, 2, 3), add(4, 5, 6), mul(2, 3, 4), add(5, 6, 7), mul(3, 4, 5), add(6, 7, 8)];
    let wait = Inst::new(op::s_waitcnt, [Operand::Immediate(0)]);
    let memory = [
        Inst::new(op::global_load_b32, [v(1), v(10), s_range(0, 2)]),
        wait,
        add(2, 1, 2),
        Inst::new(op::global_store_b32, [v(10), v(2), s_range(0, 2)]),
    ];
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let times = arguments.next().and_then(|times| times.parse().ok()).unwrap_or(20_000);
    let bodies = [
        ("simple", &simple[..]),
        ("fused", &valu),
        ("memory", &memory),
        ("gemv", &gemv()),
        ("matrix", &matrix()),
    ];
    let levels = if arguments.next().is_some() { &[Level::Fast][..] } else { &[Level::Fast, Level::Strict] };
    for level in levels.iter().copied() {
        for (name, body) in bodies.iter().filter(|(name, _)| name.contains(wanted.as_str())) {
            measure(name, body, level, times);
        }
    }
}

/// The inner loop of a product of a quantized matrix and a vector.
fn gemv() -> Vec<Inst> {
    let imm = Operand::Immediate;
    let int = Operand::int;
    let mut code = vec![
        Inst::new(op::v_lshlrev_b32, [v(9), int(4), v(0)]),
        Inst::new(op::global_load_b128, [v_range(12, 4), v(9), s_range(0, 2)]),
        Inst::new(op::global_load_b32, [v(16), v(10), s_range(0, 2)]),
        Inst::new(op::s_waitcnt, [imm(0)]),
        Inst::new(op::v_cvt_f32_f16, [v(17), v(16)]),
        Inst::new(op::v_mov_b32, [v(18), int(0)]),
    ];
    for number in 12..16 {
        code.push(Inst::new(op::v_and_b32, [v(19), s(3), v(number)]));
        code.push(Inst::new(op::v_lshrrev_b32, [v(20), int(4), v(number)]));
        code.push(Inst::new(op::v_bfe_u32, [v(21), v(number), int(8), int(4)]));
        for part in 19..22 {
            code.push(Inst::new(op::v_dot4_i32_iu8, [v(18), v(part), v(16), v(18)]));
        }
    }
    code.push(Inst::new(op::v_cvt_f32_i32, [v(19), v(18)]));
    code.push(Inst::new(op::v_fma_f32, [v(1), v(19), v(17), v(1)]));
    code.push(Inst::new(op::ds_store_b32, [v(10), v(1)]));
    code.push(Inst::new(op::ds_load_b32, [v(20), v(10)]));
    code.push(Inst::new(op::s_waitcnt, [imm(0)]));
    code.push(Inst::new(op::v_add_f32, [v(2), v(20), v(2)]));
    code
}

/// Matrix instructions with the conversions before them.
fn matrix() -> Vec<Inst> {
    let mut code: Vec<Inst> =
        (11..19).map(|number| Inst::new(op::v_cvt_f32_ubyte0, [v(number), v(number - 9)])).collect();
    code.push(Inst::new(
        op::v_wmma_f32_16x16x16_f16,
        [v_range(24, 8), v_range(1, 8), v_range(1, 8), v_range(24, 8)],
    ));
    code
}
