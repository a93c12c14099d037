//! Wave instructions per second of one core: a vector-bound loop and a memory-bound one, fast and strict.

use std::time::Instant;

use doorbell_isa::{Inst, Operand, Target, encode, op, s, s_range, v};
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
    ];
    for number in 1..9 {
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

fn measure(name: &str, body: &[Inst], level: Level) {
    let mut space = Space::new();
    let code = space.allocate("code", 4096).expect("memory");
    code.write(0, &words(&looped(body, 20_000)));
    let data = space.allocate("data", 4096).expect("memory");
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
    let start = Instant::now();
    let report = engine.run(&[dispatch], &mut space).expect("runs");
    let seconds = start.elapsed().as_secs_f64();
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
    for level in [Level::Fast, Level::Strict] {
        measure("simple", &simple, level);
        measure("fused", &valu, level);
        measure("memory", &memory, level);
    }
}
