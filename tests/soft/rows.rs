//! Every row of the instruction table on inputs with results that were computed elsewhere.
//!
//! The cases come from `tests/goldens/soft/rows/make.py`, which says what its lines mean and shares nothing with the
//! processor. Instructions without a value are in `behavior.rs`; here also: the count of rows that have a case.

use doorbell_isa::operand_kind::{Class, Type};
use doorbell_isa::{
    Cache, Format, Generation, Inst, Op, Operand, Operands, Row, Scalar, Target, op, s, s_range, v, v_range,
};
use doorbell_soft::processor::{Level, Options};
use std::collections::{BTreeMap, BTreeSet};

use crate::program::{Machine, assemble};

/// Values of the lanes.
type Vector = [u32; 32];

/// Registers: sources from v2 and s16, destinations from v32 and s64, masks, the second half of a dual issue.
const SOURCES: u8 = 2;
const DESTINATION: u8 = 32;
const MOVED: (u8, u8) = (5, 34);
const SCALAR_SOURCES: u8 = 16;
const SCALAR_DESTINATION: u8 = 64;
const MASK_IN: u8 = 8;
const MASK_OUT: u8 = 20;
/// Base addresses: inputs, outputs, memory; the buffer resource.
const INPUT: u8 = 80;
const OUTPUT: u8 = 82;
const MEMORY: u8 = 84;
const RESOURCE: u8 = 88;
/// Memory images pass through these registers; 4 * lane, zero, 4 * lane + 3968, a copy of a scalar.
const IMAGE: u8 = 100;
const LANE: u8 = 240;
const ZERO: u8 = 241;
const FAR_LANE: u8 = 242;
const COPY: u8 = 243;

/// One line of the table.
struct Case<'a> {
    name: &'a str,
    chips: &'a str,
    operands: Vec<&'a str>,
    settings: BTreeMap<&'a str, &'a str>,
    results: Vec<(&'a str, &'a str)>,
    line: usize,
}

struct Table<'a> {
    pools: BTreeMap<&'a str, Vector>,
    cases: Vec<Case<'a>>,
}

fn hex(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap()
}

fn vector(text: &str, separator: char) -> Vector {
    let words: Vec<u32> = text.split(separator).map(hex).collect();
    words.try_into().unwrap()
}

fn read(text: &str) -> Table<'_> {
    let mut table = Table { pools: BTreeMap::new(), cases: Vec::new() };
    for (line, content) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = content.split('|').map(str::trim).collect();
        if let Some(name) = fields[0].strip_prefix("pool ") {
            table.pools.insert(name, vector(fields[1], ' '));
            continue;
        }
        let (name, chips) = fields[0].split_once(' ').unwrap();
        let operands = fields[1].split_whitespace().collect();
        let settings = fields[2].split_whitespace().map(|one| one.split_once('=').unwrap()).collect();
        let results = fields[3].split_whitespace().map(|one| one.split_once(':').unwrap()).collect();
        table.cases.push(Case { name, chips, operands, settings, results, line });
    }
    table
}

impl Case<'_> {
    fn setting(&self, name: &str) -> Option<u32> {
        self.settings.get(name).map(|text| hex(text))
    }

    fn words(&self, key: &str) -> Option<Vec<u32>> {
        let found = self.results.iter().find(|(name, _)| *name == key)?;
        Some(found.1.split(',').map(hex).collect())
    }

    /// Words of memory that differ afterwards.
    fn changes(&self) -> BTreeMap<usize, u32> {
        let found = self.results.iter().find(|(name, _)| *name == "mem");
        let pairs = found.into_iter().flat_map(|(_, text)| text.split(','));
        pairs
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(at, word)| (hex(at) as usize, hex(word)))
            .collect()
    }
}

/// A case made concrete for one chip.
struct Setup {
    inst: Inst,
    op: Op,
    target: Target,
    /// Registers to load and what with.
    loads: Vec<(u8, Vector)>,
    scalars: Vec<(u8, u32)>,
    image: Vec<Vector>,
    bytes: u32,
    destination: (u8, u8),
    first_source: u8,
    /// Registers of a 64-bit address to be completed.
    address: Option<u8>,
}

impl Setup {
    fn new(case: &Case<'_>, table: &Table<'_>, target: Target) -> Self {
        let op = Op::from_name(case.name, target).unwrap_or_else(|| panic!("{} on {target:?}", case.name));
        let row = op.row();
        let second_half = row.format == Format::Vopd && row.opcode(target).is_some_and(|code| code >= 16);
        let first = if second_half { DESTINATION + 3 } else { DESTINATION };
        let mut setup = Self {
            inst: Inst::with_operands(op, Operands::EMPTY),
            op,
            target,
            loads: Vec::new(),
            scalars: Vec::new(),
            image: Vec::new(),
            bytes: 0x200,
            destination: (first + case.setting("to").unwrap_or(0) as u8, 0),
            first_source: 0,
            address: None,
        };
        let pools = |text: &str| text.split('+').map(|name| table.pools[name]).collect::<Vec<Vector>>();
        if let Some(text) = case.settings.get("mem") {
            setup.image = pools(text);
        }
        let mut list = Operands::EMPTY;
        let returns = case.setting("ret").unwrap_or(1) == 1;
        for kind in row.dst.iter().filter(|_| returns) {
            let count = kind.ty.dwords();
            list.push(match kind.class {
                Class::Mask => s(MASK_OUT),
                Class::Scalar => s_range(SCALAR_DESTINATION, count),
                _ if row.is_vector() || row.format as usize >= Format::Ds as usize => {
                    setup.destination.1 = count;
                    v_range(first, count)
                }
                _ => s_range(SCALAR_DESTINATION, count),
            });
        }
        let old =
            case.settings.get("old").map_or_else(|| vec![table.pools["default"]; 16], |text| pools(text));
        for (part, values) in (0..setup.destination.1).zip(old) {
            setup.loads.push((setup.destination.0 + part, values));
        }
        for (position, (token, kind)) in (0..).zip(case.operands.iter().zip(row.src)) {
            let operand = setup.source(token, kind.class, kind.ty.dwords(), position, &pools, case);
            list.push(operand);
        }
        setup.finish(case, list, second_half);
        setup
    }

    fn source(
        &mut self,
        token: &str,
        class: Class,
        count: u8,
        position: u8,
        pools: &dyn Fn(&str) -> Vec<Vector>,
        case: &Case<'_>,
    ) -> Operand {
        let (letter, text) = token.split_once(':').unwrap_or((token, ""));
        let register = SOURCES + 8 * position;
        match letter {
            "p" => {
                let shift = if position == 0 { case.setting("from").unwrap_or(0) as u8 } else { 0 };
                let values = pools(text);
                let named = if class == Class::GlobalAddress { 1 } else { count };
                self.loads.extend((0..).zip(&values).map(|(part, pool)| (register + shift + part, *pool)));
                if position == 0 {
                    self.first_source = register;
                }
                if self.op.row().format == Format::Flat && position == 0 {
                    self.address = Some(register);
                }
                v_range(register, named)
            }
            "s" => {
                let first = SCALAR_SOURCES + 16 * position;
                let words = text.split('+').map(hex);
                self.scalars.extend((0..).zip(words).map(|(part, word)| (first + part, word)));
                s_range(first, count)
            }
            "m" => {
                self.scalars.push((MASK_IN, hex(text)));
                s(MASK_IN)
            }
            "k" => Operand::Literal(hex(text)),
            "i" => Operand::Immediate(text.parse().unwrap()),
            "b" => s_range(MEMORY, 2),
            "d" => {
                self.bytes = hex(text);
                s_range(RESOURCE, 4)
            }
            "o" => Operand::Off,
            "n" if self.target.generation() == Generation::Gfx12 => Operand::NULL,
            "n" => Operand::Int(0),
            _ => panic!("operand {token}"),
        }
    }

    fn finish(&mut self, case: &Case<'_>, list: Operands, second_half: bool) {
        let row = self.op.row();
        let mut inst = Inst::with_operands(self.op, list);
        if row.has_two_forms() {
            inst = inst.long();
        }
        let small = |name: &str| case.setting(name).map(|value| value as u8);
        inst.modifiers.neg = small("neg").unwrap_or(inst.modifiers.neg);
        inst.modifiers.op_sel = small("opsel").unwrap_or(inst.modifiers.op_sel);
        inst.modifiers.op_sel_hi = small("opselhi").unwrap_or(inst.modifiers.op_sel_hi);
        inst.modifiers.clamp = case.setting("clamp") == Some(1);
        inst.memory.offset = case.setting("offset").unwrap_or(0).cast_signed();
        inst.memory.offen = row.format == Format::Mubuf;
        if case.setting("ret") == Some(1) {
            inst = inst.cache(match self.target.generation() {
                Generation::Gfx12 => Cache::Gfx12 { scope: doorbell_isa::Scope::Device, hint: 1 },
                _ => Cache::Gfx11 { glc: true, slc: false, dlc: false },
            });
        }
        if row.format == Format::Vopd {
            let moved =
                (op::v_dual_mov_b32, [v(if second_half { MOVED.1 } else { MOVED.1 + 1 }), v(MOVED.0)]);
            let other = Inst::new(moved.0, moved.1);
            let (x, y) = if second_half { (other, inst) } else { (inst, other) };
            inst = Inst { second: Some((y.op, y.operands)), ..x };
        }
        self.inst = inst;
    }

    /// True if memory is the buffer, not LDS or scratch.
    fn is_global(&self) -> bool {
        !matches!(self.op.row().format, Format::Ds | Format::Scratch)
    }
}

fn wait(target: Target) -> Vec<Inst> {
    let zero = [Operand::Immediate(0)];
    if target.generation() == Generation::Gfx12 {
        let all = [op::s_wait_loadcnt, op::s_wait_storecnt, op::s_wait_dscnt, op::s_wait_kmcnt];
        return all.into_iter().map(|one| Inst::new(one, zero)).collect();
    }
    let stores = Inst::new(op::s_waitcnt_vscnt, [Operand::NULL, Operand::Immediate(0)]);
    vec![Inst::new(op::s_waitcnt, zero), stores]
}

/// Moves a word of memory that every lane has for itself, or that LDS has for all, to or from a register.
fn image_access(setup: &Setup, part: u8, load: bool) -> Inst {
    let offset = if setup.op.row().format == Format::Ds { 128 } else { 4 } * i32::from(part);
    let register = v(IMAGE + part);
    let inst = match (setup.op.row().format, load) {
        (Format::Ds, false) => Inst::new(op::ds_store_b32, [v(LANE), register]),
        (Format::Ds, true) => Inst::new(op::ds_load_b32, [register, v(LANE)]),
        (_, false) => Inst::new(op::scratch_store_b32, [v(ZERO), register, Operand::Off]),
        (_, true) => Inst::new(op::scratch_load_b32, [register, v(ZERO), Operand::Off]),
    };
    inst.offset(offset)
}

fn before(case: &Case<'_>, setup: &Setup) -> Vec<Inst> {
    let target = setup.target;
    let mov = |register: Operand, word: u32| Inst::new(op::s_mov_b32, [register, Operand::Literal(word)]);
    let mut code = vec![
        Inst::new(op::s_load_b128, [s_range(INPUT, 4), s_range(0, 2), Operand::Off]),
        Inst::new(op::s_load_b64, [s_range(MEMORY, 2), s_range(0, 2), Operand::Off]).offset(16),
        Inst::new(op::v_mov_b32, [v(MOVED.0), v(0)]),
        Inst::new(op::v_lshlrev_b32, [v(LANE), Operand::Int(2), v(0)]),
        Inst::new(op::v_mov_b32, [v(ZERO), Operand::Int(0)]),
        Inst::new(op::v_add_nc_u32, [v(FAR_LANE), Operand::Literal(3968), v(LANE)]),
    ];
    code.extend(wait(target));
    let images = if setup.is_global() { &[] } else { &setup.image[..] };
    let images = (IMAGE..).zip(images.iter().copied());
    for (index, (register, _)) in (0..).zip(setup.loads.iter().copied().chain(images.clone())) {
        let load = Inst::new(op::global_load_b32, [v(register), v(LANE), s_range(INPUT, 2)]);
        code.push(load.offset(index * 128));
    }
    code.extend(wait(target));
    code.extend((0..).zip(images).map(|(part, _)| image_access(setup, part, false)));
    code.extend(wait(target));
    if let Some(address) = setup.address {
        code.push(Inst::new(op::v_add_nc_u32, [v(address), s(MEMORY), v(address)]));
        code.push(Inst::new(op::v_mov_b32, [v(address + 1), s(MEMORY + 1)]));
    }
    code.push(Inst::new(op::s_mov_b32, [s(RESOURCE), s(MEMORY)]));
    code.push(Inst::new(op::s_mov_b32, [s(RESOURCE + 1), s(MEMORY + 1)]));
    let fixed = [(RESOURCE + 2, setup.bytes), (RESOURCE + 3, 0x3100_4000), (MASK_OUT, 0)];
    code.extend(fixed.iter().chain(&setup.scalars).map(|(number, word)| mov(s(*number), *word)));
    let old = case.settings.get("sold").map(|text| text.split(',').map(hex).collect::<Vec<u32>>());
    let old = old.unwrap_or_else(|| vec![0; 16]);
    code.extend((SCALAR_DESTINATION..).zip(old).map(|(number, word)| mov(s(number), word)));
    code.push(mov(Operand::VCC_LO, case.setting("vcc").unwrap_or(0)));
    let m0 = Operand::Scalar(Scalar::M0);
    code.push(mov(m0, case.setting("m0").unwrap_or(u32::MAX)));
    let scc = case.setting("scc").unwrap_or(0);
    code.push(Inst::new(op::s_cmp_eq_u32, [Operand::Int(1), Operand::Int(scc as i8)]));
    code.push(mov(Operand::EXEC_LO, case.setting("exec").unwrap_or(u32::MAX)));
    code
}

/// Chunks of 32 words that are written afterwards: destination, first source, the moved half, then scalars, memory.
fn after(setup: &Setup) -> Vec<Inst> {
    let target = setup.target;
    let mut code = vec![
        Inst::new(op::s_cselect_b32, [s(92), Operand::Int(1), Operand::Int(0)]),
        Inst::new(op::s_mov_b32, [s(93), Operand::VCC_LO]),
        Inst::new(op::s_mov_b32, [s(94), Operand::EXEC_LO]),
        Inst::new(op::s_mov_b32, [Operand::EXEC_LO, Operand::Int(-1)]),
    ];
    code.extend(wait(target));
    let mut chunk = 0;
    let mut store = |register: u8, code: &mut Vec<Inst>| {
        let (address, offset) = if chunk < 31 { (LANE, chunk * 128) } else { (FAR_LANE, (chunk - 31) * 128) };
        let inst = Inst::new(op::global_store_b32, [v(address), v(register), s_range(OUTPUT, 2)]);
        code.push(inst.offset(offset));
        chunk += 1;
    };
    let (first, _) = setup.destination;
    for register in (first..first + 8).chain([setup.first_source, MOVED.1, MOVED.1 + 1]) {
        store(register, &mut code);
    }
    let scalars = [MASK_OUT, 93, 94, 92].into_iter().chain(SCALAR_DESTINATION..SCALAR_DESTINATION + 16);
    for number in scalars {
        code.push(Inst::new(op::v_mov_b32, [v(COPY), s(number)]));
        store(COPY, &mut code);
    }
    if !setup.is_global() {
        code.extend((0..8).map(|part| image_access(setup, part, true)));
        code.extend(wait(target));
        for part in 0..8 {
            store(IMAGE + part, &mut code);
        }
    }
    code.push(Inst::new(op::s_endpgm, [Operand::Immediate(0)]));
    code
}

const CHUNK_SOURCE: usize = 8;
const CHUNK_MOVED: usize = 9;
const CHUNK_SCALARS: usize = 11;
const CHUNK_IMAGE: usize = CHUNK_SCALARS + 20;

/// Results of a case: chunks of 32 words, then words of memory.
struct Found {
    chunks: Vec<Vector>,
    memory: Vec<u32>,
}

fn run(case: &Case<'_>, setup: &Setup, level: Level) -> Result<Found, String> {
    let target = setup.target;
    let mut code = before(case, setup);
    code.push(setup.inst);
    code.extend(after(setup));
    let mut machine = Machine::new(&assemble(&code, target));
    let window = machine.space.allocate("memory", 16384).unwrap();
    let images = if setup.is_global() { &[] } else { &setup.image[..] };
    for (chunk, values) in setup.loads.iter().map(|load| &load.1).chain(images).enumerate() {
        for (lane, word) in values.iter().enumerate() {
            window.store32(chunk * 128 + lane * 4, *word);
        }
    }
    const OUT: usize = 4096;
    const DATA: usize = 12288;
    for (index, word) in setup.image.iter().flatten().enumerate() {
        window.store32(DATA + index * 4, *word);
    }
    let base = window.address();
    for (slot, address) in [base, base + OUT as u64, base + DATA as u64].into_iter().enumerate() {
        window.store64(16000 + slot * 8, address);
    }
    let options = Options { level, seed: 1, budget: 10_000, ..Options::default() };
    let mut dispatch = machine.dispatch(32, base + 16000);
    dispatch.mode = case.setting("mode").unwrap_or(dispatch.mode);
    machine.run(target, options, dispatch).map_err(|fault| fault.to_string())?;
    let chunk = |at: usize| core::array::from_fn(|lane| window.load32(OUT + at * 128 + lane * 4));
    let chunks: Vec<Vector> = (0..CHUNK_IMAGE + 8).map(chunk).collect();
    let words = setup.image.len() * 32;
    let memory = if setup.is_global() {
        (0..words).map(|at| window.load32(DATA + at * 4)).collect()
    } else {
        chunks[CHUNK_IMAGE..].iter().flatten().copied().take(words).collect()
    };
    Ok(Found { chunks, memory })
}

/// True if two results agree: bit for bit, but NaNs with any payload.
fn agree(row: &Row, expected: &[Vector], found: &[Vector], lane: usize) -> bool {
    let kind = row.dst.first().map(|kind| kind.ty);
    let half_nan = |word: u32| word & 0x7c00 == 0x7c00 && word & 0x3ff != 0;
    let brain_nan = |word: u32| word & 0x7f80 == 0x7f80 && word & 0x7f != 0;
    let same16 = |a: u32, b: u32, nan: &dyn Fn(u32) -> bool| a == b || (nan(a) && nan(b));
    if kind == Some(Type::F64) {
        let [a, b] = [expected, found]
            .map(|words| f64::from_bits(u64::from(words[0][lane]) | u64::from(words[1][lane]) << 32));
        return a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    }
    expected.iter().zip(found).all(|(expected, found)| {
        let (a, b) = (expected[lane], found[lane]);
        match kind {
            Some(Type::F32) => a == b || (f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()),
            Some(Type::F16 | Type::PF16) => {
                same16(a & 0xffff, b & 0xffff, &half_nan) && same16(a >> 16, b >> 16, &half_nan)
            }
            Some(Type::BF16) => same16(a & 0xffff, b & 0xffff, &brain_nan) && a >> 16 == b >> 16,
            // Scalar results of transcendental instructions and pairs of singles are typed as plain words.
            Some(Type::B32 | Type::B64) if row.name.contains("_f") => {
                a == b
                    || (f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan())
                    || (half_nan(a) && half_nan(b))
            }
            _ => a == b,
        }
    })
}

fn compare(case: &Case<'_>, setup: &Setup, found: &Found) -> Vec<String> {
    let row = setup.op.row();
    let mut wrong = Vec::new();
    let vectors: Vec<Vector> =
        case.results.iter().filter(|(key, _)| *key == "v").map(|(_, text)| vector(text, ',')).collect();
    for lane in (0..32)
        .filter(|lane| !vectors.is_empty() && !agree(row, &vectors, &found.chunks[..vectors.len()], *lane))
    {
        let [want, have] = [&vectors[..], &found.chunks[..vectors.len()]]
            .map(|words| words.iter().map(|word| format!("{:x}", word[lane])).collect::<Vec<_>>().join(" "));
        let inputs: Vec<String> =
            setup.loads.iter().map(|(at, word)| format!("v{at}={:x}", word[lane])).collect();
        wrong.push(format!("lane {lane}: {want} expected, {have} found; {}", inputs.join(" ")));
    }
    if case.settings.contains_key("dual") {
        let at = CHUNK_MOVED + usize::from(setup.destination.0 == DESTINATION);
        if (0..32).any(|lane| {
            found.chunks[at][lane] != lane as u32 && case.setting("exec").unwrap() >> lane & 1 != 0
        }) {
            wrong.push("the other half of the pair moved something else".into());
        }
    }
    if let Some(words) = case.words("r")
        && words[..] != found.chunks[CHUNK_SOURCE]
    {
        wrong.push(format!("first source {words:x?} expected, {:x?} found", found.chunks[CHUNK_SOURCE]));
    }
    let scalar = |at: usize| found.chunks[CHUNK_SCALARS + at][0];
    let kept = |key: &str, start: u32| case.words(key).map_or(start, |words| words[0]);
    let exec = kept("exec", case.setting("exec").unwrap_or(u32::MAX));
    let scc = kept("scc", case.setting("scc").unwrap_or(0));
    let expected = [kept("m", 0), kept("vcc", case.setting("vcc").unwrap_or(0)), exec, scc];
    for (at, (name, expected)) in ["mask", "vcc", "exec", "scc"].iter().zip(expected).enumerate() {
        if scalar(at) != expected {
            wrong.push(format!("{name} {expected:x} expected, {:x} found", scalar(at)));
        }
    }
    if let Some(words) = case.words("s") {
        let have: Vec<u32> = (0..words.len()).map(|at| scalar(4 + at)).collect();
        let lanes = |list: &[u32]| list.iter().map(|word| [*word; 32]).collect::<Vec<_>>();
        if !agree(row, &lanes(&words), &lanes(&have), 0) {
            wrong.push(format!("{words:x?} expected, {have:x?} found; {:?}", case.operands));
        }
    }
    wrong.extend(compare_memory(case, setup, found));
    wrong
}

fn compare_memory(case: &Case<'_>, setup: &Setup, found: &Found) -> Option<String> {
    let changes = case.changes();
    let start = setup.image.iter().flatten().copied();
    let pairs = start.zip(&found.memory).enumerate();
    pairs.map(|(at, (word, have))| (at, changes.get(&at).copied().unwrap_or(word), *have)).find_map(
        |(at, want, have)| {
            let nan = |bits: u32| f32::from_bits(bits).is_nan();
            let same = want == have || (setup.op.name().contains("_f") && nan(want) && nan(have));
            (!same).then(|| format!("memory word {at:#x}: {want:x} expected, {have:x} found"))
        },
    )
}

const TEXT: &str = include_str!("../goldens/soft/rows.txt");

fn target_of(chip: char) -> Target {
    match chip {
        'a' => Target::Gfx1100,
        'b' => Target::Gfx1151,
        _ => Target::Gfx1200,
    }
}

/// Rows of the table that have a case, with their chips.
pub(crate) fn covered() -> BTreeSet<(Op, char)> {
    let table = read(TEXT);
    let cases = table.cases.iter();
    cases
        .flat_map(|case| {
            case.chips.chars().filter_map(|chip| Some((Op::from_name(case.name, target_of(chip))?, chip)))
        })
        .collect()
}

fn check(level: Level, wanted: &dyn Fn(usize, char) -> bool) {
    let table = read(TEXT);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in &table.cases {
        for chip in case.chips.chars().filter(|chip| wanted(case.line, *chip)) {
            let target = target_of(chip);
            let setup = Setup::new(case, &table, target);
            count += 1;
            let label = format!("{} {} (line {})", case.name, target.name(), case.line);
            match run(case, &setup, level) {
                Err(why) => wrong.push(format!("{label}: {why}")),
                Ok(found) => {
                    let differences = compare(case, &setup, &found);
                    wrong.extend(differences.into_iter().take(2).map(|why| format!("{label}: {why}")));
                }
            }
        }
    }
    println!("{count} cases");
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 3000, "{count}");
}

#[test]
fn every_case_of_every_row_holds_on_every_chip() {
    check(Level::Fast, &|_, _| true);
}

#[test]
fn every_case_holds_under_the_sanitizers() {
    // A third of the pairs each: the chips share their cases.
    check(Level::Strict, &|line, chip| line % 3 == usize::from(chip == 'b') + 2 * usize::from(chip == 'c'));
}
