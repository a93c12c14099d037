//! Bad input: malformed IR, impossible pressure, too much LDS, unsupported operations. Typed errors, no panics.

use doorbell_compiler::ir::{Alu, Builder, Elem, Node, Op, Value, Width};
use doorbell_compiler::machine::Bank;
use doorbell_compiler::pass::uniformity::UniformityError;
use doorbell_compiler::pass::verify::VerifyError;
use doorbell_compiler::{CompileError, Options, compile};
use doorbell_isa::Target;

fn error(builder: Builder) -> CompileError {
    compile(&builder.finish(), Target::Gfx1100, &Options::default()).expect_err("refused")
}

#[test]
fn lds_and_workgroup_limits() {
    let mut k = Builder::new("lds", 32);
    k.local(64 * 1024 + 4);
    assert_eq!(error(k), CompileError::Verify(VerifyError::Lds { bytes: 64 * 1024 + 4 }));
    for size in [0, 33, 2048] {
        assert_eq!(error(Builder::new("w", size)), CompileError::Verify(VerifyError::Workgroup { size }));
    }
}

#[test]
fn values_from_another_branch() {
    let mut k = Builder::new("scope", 32);
    let out = k.buffer("out");
    let item = k.workitem_id();
    let one = k.int(1);
    let condition = k.lt_u(item, one);
    let mut inner: Option<Value> = None;
    k.when(condition, |k| inner = Some(k.add(item, one)));
    let address = k.global(out, item);
    k.store(address, Width::Dwords(1), inner.unwrap());
    let found = error(k);
    assert!(matches!(found, CompileError::Verify(VerifyError::Undefined { .. })), "{found}");
    assert!(found.to_string().starts_with("store.b32"), "{found}");
}

#[test]
fn wrong_types() {
    let mut k = Builder::new("types", 32);
    let x = k.float(1.0);
    let one = k.int(1);
    k.alu(Alu::add, &[x, one]);
    let found = error(k);
    assert!(
        matches!(&found, CompileError::Verify(VerifyError::Type { operation }) if operation.starts_with("add"))
    );
    let mut k = Builder::new("arity", 32);
    let one = k.int(1);
    k.alu(Alu::fma, &[one]);
    assert!(matches!(error(k), CompileError::Verify(VerifyError::Type { .. })));
}

#[test]
fn false_uniformity() {
    let mut k = Builder::new("uniform", 32);
    let item = k.workitem_id();
    let one = k.int(1);
    let sum = k.add(item, one);
    let mut function = k.finish();
    let ty = function.ty(sum).unwrap();
    // The declaration is a claim of the builder's user; make a false one.
    for (index, node) in function.body.nodes.iter().enumerate() {
        if matches!(node, Node::Op(Some(value), Op::Alu(..)) if *value == sum) {
            function.types[index].uniform = true;
        }
    }
    assert!(!ty.uniform);
    let found = compile(&function, Target::Gfx1100, &Options::default()).unwrap_err();
    assert!(
        matches!(&found, CompileError::Uniformity(UniformityError { value, .. }) if *value == sum),
        "{found}"
    );
}

#[test]
fn impossible_pressure_names_the_instruction() {
    let mut k = Builder::new("pressure", 32);
    let (a, out) = (k.buffer("a"), k.buffer("out"));
    let item = k.workitem_id();
    let offset = {
        let two = k.int(2);
        k.shl(item, two)
    };
    let address = k.global(a, offset);
    let values: Vec<Value> = (0..80).map(|_| k.load(address, Width::Dwords(4), Elem::Float)).collect();
    k.barrier(true);
    for value in values {
        let to = k.global(out, offset);
        k.store(to, Width::Dwords(4), value);
    }
    match error(k) {
        CompileError::Pressure(found) => {
            assert_eq!((found.bank, found.available), (Bank::Vector, 256));
            assert!(found.needed > 256 && found.instruction == "global_load_b128", "{found}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn barriers_and_matrices_need_all_lanes() {
    let mut k = Builder::new("divergent", 32);
    let item = k.workitem_id();
    let one = k.int(1);
    let condition = k.lt_u(item, one);
    k.when(condition, |k| k.barrier(false));
    let found = error(k);
    assert_eq!(found, CompileError::Verify(VerifyError::Divergent { operation: "barrier".to_string() }));
}

#[test]
fn halves_in_high_registers_take_the_long_form() {
    let mut k = Builder::new("high", 32);
    let (a, out) = (k.buffer("a"), k.buffer("out"));
    let item = k.workitem_id();
    let two = k.int(2);
    let offset = k.shl(item, two);
    let loads: Vec<Value> = (0..50)
        .map(|index| {
            let mut address = k.global(a, offset);
            address.constant = 16 * index;
            k.load(address, Width::Dwords(4), Elem::HalfPair)
        })
        .collect();
    let mut sum = k.float(0.0);
    for load in loads {
        for index in 0..4 {
            let halves = k.extract(load, index);
            let value = k.cvt_f_h(halves);
            sum = k.fadd(sum, value);
        }
    }
    let to = k.global(out, offset);
    k.store(to, Width::Dwords(1), sum);
    let options = Options { schedule: false, ..Options::default() };
    let kernel = compile(&k.finish(), Target::Gfx1100, &options).unwrap();
    assert!(kernel.resources.vgprs > 128);
    assert!(kernel.assembly().contains("v_cvt_f32_f16_e64"), "{}", kernel.assembly());
}
