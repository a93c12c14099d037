//! Workgroups on several host threads give what one thread gives: memory, counts, faults.

use doorbell_isa::{Inst, Operand, Target, op, s, s_range, v};
use doorbell_soft::code::CodeObject;
use doorbell_soft::processor::{Cause, Fault, Level, Options, Report};

use crate::opencl::{OBJECTS, items, run};
use crate::program::{Machine, assemble};
use crate::references::REFERENCES;

fn options(threads: usize) -> Options {
    Options { level: Level::Fast, threads, ..Options::default() }
}

#[test]
fn compiled_programs_give_the_same_on_any_number_of_threads() {
    let (input, rows) = items();
    for (_, _, file) in OBJECTS {
        let object = CodeObject::parse(file).unwrap();
        let names = rows.iter().map(|(name, _)| format!("k_{name}"));
        for name in names.chain(REFERENCES.iter().map(|(name, _)| (*name).to_owned())) {
            let (memory, report, executed) = run(&object, &name, &input, options(1)).unwrap();
            for threads in [2, 3] {
                let other = run(&object, &name, &input, options(threads)).unwrap();
                assert_eq!(memory, other.0, "{name}");
                assert_eq!((report.mix, report.groups), (other.1.mix, other.1.groups), "{name}");
                assert_eq!(executed, other.2, "{name}");
            }
        }
    }
}

/// Every group stores its number; those from `far` on do so outside the buffer.
fn stores(threads: usize, far: i32) -> (Vec<u32>, Result<Report, Fault>) {
    let code = [
        Inst::new(op::s_lshl_b32, [s(8), s(2), Operand::int(2)]),
        Inst::new(op::s_cmp_ge_u32, [s(2), Operand::int(far)]),
        Inst::new(op::s_cselect_b32, [s(9), Operand::Literal(1 << 20), Operand::int(0)]),
        Inst::new(op::s_add_u32, [s(8), s(8), s(9)]),
        Inst::new(op::v_mov_b32, [v(1), s(8)]),
        Inst::new(op::v_mov_b32, [v(2), s(2)]),
        Inst::new(op::global_store_b32, [v(1), v(2), s_range(0, 2)]),
        Inst::new(op::s_endpgm, [Operand::Immediate(0)]),
    ];
    let mut machine = Machine::new(&assemble(&code, Target::Gfx1100));
    let buffer = machine.space.allocate("buffer", 4096).unwrap();
    let mut dispatch = machine.dispatch(32, buffer.address());
    dispatch.grid[0] = 32 * 200;
    let outcome = machine.run(Target::Gfx1100, options(threads), dispatch);
    ((0..200).map(|word| buffer.load32(word * 4)).collect(), outcome)
}

#[test]
fn the_first_fault_is_the_one_that_is_reported() {
    for threads in [1, 2, 4] {
        let (memory, outcome) = stores(threads, 1000);
        assert!(memory.iter().zip(0..).all(|(found, wanted)| *found == wanted));
        assert_eq!(outcome.unwrap().groups, 200);
        for _ in 0..8 {
            let (memory, outcome) = stores(threads, 60);
            let fault = outcome.unwrap_err();
            assert_eq!(fault.group, [60, 0, 0]);
            assert!(matches!(&fault.cause, Cause::Memory(memory) if memory.nearest.is_some()), "{fault}");
            assert!(memory[..60].iter().zip(0..).all(|(found, wanted)| *found == wanted));
        }
    }
}
