//! Counts of dispatches against what the programs say, and modelled times against estimates made by hand from the same
//! public constants.

use doorbell_isa::{Inst, Operand, Target, Timing, op, s, s_range, v, v_range};
use doorbell_kfd::packet::Encoding;
use doorbell_soft::memory::Space;
use doorbell_soft::processor::{Dispatch, Engine, Level, Model, Options, Profile};

use crate::program::assemble;
use crate::words::{imm, int};

/// Runs groups of 64 work-items with two buffers in s[0:3], as often as asked; the profiles.
fn profiles(code: &[Inst], groups: u32, bytes: usize, times: usize) -> Vec<Profile> {
    let words = assemble(code, Target::Gfx1100);
    let mut space = Space::new();
    let program = space.allocate("code", words.len() * 4 + 512).unwrap();
    program.write(0, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    let [from, to] = ["from", "to"].map(|name| space.allocate(name, bytes).unwrap().address());
    let dispatch = Dispatch {
        name: "kernel".into(),
        entry: program.address(),
        grid: [groups * 64, 1, 1],
        group: [64, 1, 1],
        lds: 8192,
        vgprs: 64,
        user: vec![from as u32, (from >> 32) as u32, to as u32, (to >> 32) as u32],
        user_defined: 15,
        ids: [true, false, false],
        mode: 0x3f0,
        ..Dispatch::default()
    };
    let options = Options { level: Level::Fast, count: true, threads: 2, ..Options::default() };
    let mut engine = Engine::new(Target::Gfx1100, options);
    engine.run(&vec![dispatch; times], &mut space).unwrap();
    engine.take_profiles()
}

/// v1 = 16 * (64 * group + item).
fn item_offset() -> [Inst; 3] {
    [
        Inst::new(op::s_lshl_b32, [s(8), s(4), int(6)]),
        Inst::new(op::v_add_nc_u32, [v(1), s(8), v(0)]),
        Inst::new(op::v_lshlrev_b32, [v(1), int(4), v(1)]),
    ]
}

fn copy() -> Vec<Inst> {
    let mut code = item_offset().to_vec();
    code.push(Inst::new(op::global_load_b128, [v_range(4, 4), v(1), s_range(0, 2)]));
    code.push(Inst::new(op::s_waitcnt, [imm(0)]));
    code.push(Inst::new(op::global_store_b128, [v(1), v_range(4, 4), s_range(2, 2)]));
    code.push(Inst::new(op::s_endpgm, [imm(0)]));
    code
}

/// A loop of `times` over a body whose length in dwords is given.
fn repeat(start: &[Inst], body: &[Inst], times: i32) -> Vec<Inst> {
    let dwords = assemble(body, Target::Gfx1100).len() as i32;
    let mut code = start.to_vec();
    code.push(Inst::new(op::s_movk_i32, [s(10), imm(times)]));
    code.extend_from_slice(body);
    code.push(Inst::new(op::s_sub_u32, [s(10), s(10), int(1)]));
    code.push(Inst::new(op::s_cmp_lg_u32, [s(10), int(0)]));
    code.push(Inst::new(op::s_cbranch_scc1, [imm(-dwords - 3)]));
    code.push(Inst::new(op::s_endpgm, [imm(0)]));
    code
}

fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.1, "{found} modelled, {wanted} by hand");
}

#[test]
fn a_copy_is_bound_by_memory() {
    let bytes = 8 << 20;
    let [first, second] = &profiles(&copy(), (bytes / 1024) as u32, bytes, 2)[..] else {
        panic!("two dispatches")
    };
    let traffic = first.traffic;
    let bytes = bytes as u64;
    assert_eq!((traffic.gl0, traffic.gl1), (bytes, bytes));
    assert_eq!((traffic.l2, traffic.memory, traffic.ideal), (2 * bytes, 2 * bytes, 2 * bytes));
    // 16 MiB do not stay in 6 MiB of L2.
    assert_eq!(second.traffic, traffic);
    assert_eq!((first.waves, first.groups, first.of(Timing::Vmem)), (bytes / 512, bytes / 1024, bytes / 256));
    let modelled = Model::of("RX 7900 XTX").unwrap().time(first);
    assert_eq!(modelled.bound(), "memory");
    near(modelled.total(), 880.0 + 16.0 * 1048576.0 / 800.0);
    let packets = Model::of("RX 7900 XTX").unwrap().submitting(Encoding::Aql);
    near(packets.time(first).total(), 3500.0 + 16.0 * 1048576.0 / 800.0);
}

#[test]
fn a_small_copy_is_found_in_the_caches() {
    let bytes = 1 << 20;
    let all = profiles(&copy(), (bytes / 1024) as u32, bytes, 2);
    assert_eq!(all[0].traffic.memory, 2 * bytes as u64);
    // L2 keeps both buffers; GL0 and GL1 were invalidated.
    assert_eq!((all[1].traffic.memory, all[1].traffic.gl1), (0, bytes as u64));
}

#[test]
fn fused_products_are_bound_by_vector_units() {
    let body: Vec<Inst> =
        (0..64).map(|at| Inst::new(op::v_fmac_f32, [v(2 + at % 16), v(20), v(21)])).collect();
    let profile = &profiles(&repeat(&[], &body, 100), 1536, 4096, 1)[0];
    assert_eq!(profile.of(Timing::Valu), 3072 * 6400);
    assert_eq!((profile.vector_cycles, profile.traffic.ideal), (3072 * 6400, 0));
    let modelled = Model::of("RX 7900 XTX").unwrap().time(profile);
    // 128 KiB of LDS hold 16 groups of two waves, for four vector units.
    assert_eq!((modelled.bound(), modelled.occupancy), ("vector", 8));
    // 3,072 waves on 192 vector units, one product per clock.
    near(modelled.total(), 880.0 + 16.0 * 6400.0 / 2.5);
    let halo = Model::of("8060S").unwrap().time(profile);
    near(halo.total(), 1890.0 + 3072.0 / 80.0 * 6400.0 / 2.9);
}

#[test]
fn lanes_that_want_one_bank_take_a_pass_each() {
    let load = |stride: u8| {
        let start = [
            Inst::new(op::v_lshlrev_b32, [v(1), int(i32::from(stride)), v(0)]),
            Inst::new(op::v_and_b32, [v(1), Operand::Literal(8188), v(1)]),
        ];
        let body = [Inst::new(op::ds_load_b32, [v(2), v(1)]), Inst::new(op::s_waitcnt, [imm(0)])];
        profiles(&repeat(&start, &body, 100), 96, 4096, 1).remove(0)
    };
    let (packed, apart) = (load(2), load(7));
    assert_eq!((packed.lds_cycles, packed.lds_conflicts), (96 * 2 * 100, 0));
    assert_eq!((apart.lds_cycles, apart.lds_conflicts), (96 * 2 * 3200, 96 * 2 * 3100));
    let modelled = Model::of("RX 7900 XTX").unwrap().time(&apart);
    // Two waves on each compute unit, 32 clocks a load.
    near(modelled.lds, 2.0 * 3200.0 / 2.5);
    assert!(modelled.total() > Model::of("RX 7900 XTX").unwrap().time(&packed).total());
}
