//! Static figures of a compiled kernel: registers, occupancy, instruction mix, issue cycles, bytes.

use crate::object::Resources;
use core::fmt;
use doorbell_isa::{Flags, Format, Target, Timing, decode};

/// Timing classes as the report groups them.
pub const CLASSES: [(&[Timing], &str); 10] = [
    (&[Timing::Valu], "vector"),
    (&[Timing::Valu64, Timing::Quarter], "wide integer"),
    (&[Timing::Trans], "transcendental"),
    (&[Timing::F64, Timing::F64Trans], "double"),
    (&[Timing::Matrix, Timing::MatrixNarrow], "matrix"),
    (&[Timing::Salu, Timing::SaluFloat], "scalar"),
    (&[Timing::Branch, Timing::Message, Timing::Barrier], "control"),
    (&[Timing::Smem], "scalar memory"),
    (&[Timing::Lds], "LDS"),
    (&[Timing::Vmem, Timing::Flat], "vector memory"),
];

/// Static figures of one kernel; every instruction counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The chip.
    pub target: Target,
    /// VGPRs.
    pub vgprs: u16,
    /// SGPRs.
    pub sgprs: u16,
    /// LDS bytes.
    pub lds_bytes: u32,
    /// Scratch bytes of each lane.
    pub scratch_bytes: u32,
    /// Waves per SIMD that the VGPRs allow.
    pub waves: u16,
    /// Instructions.
    pub instructions: u32,
    /// Vector ALU, dual-issue pairs among them.
    pub vector: u32,
    /// Dual-issue pairs.
    pub dual: u32,
    /// Matrix instructions.
    pub matrix: u32,
    /// Scalar ALU.
    pub scalar: u32,
    /// Memory instructions: scalar, LDS, global.
    pub memory: [u32; 3],
    /// Waits and hazard fixes.
    pub waits: u32,
    /// Branches.
    pub branches: u32,
    /// Clocks during which the unit of each timing class issues, in the order of [`CLASSES`].
    pub clocks: [u32; CLASSES.len()],
    /// Code bytes without padding.
    pub code_bytes: u32,
    /// Bytes per lane that global loads and stores move.
    pub bytes: [u32; 2],
}

impl Report {
    /// The figures of machine code.
    pub fn new(words: &[u32], resources: &Resources, target: Target) -> Self {
        let mut report = Self {
            target,
            vgprs: resources.vgprs,
            sgprs: resources.sgprs,
            lds_bytes: resources.lds_bytes,
            scratch_bytes: resources.scratch_bytes,
            waves: target.waves_per_simd(resources.vgprs),
            instructions: 0,
            vector: 0,
            dual: 0,
            matrix: 0,
            scalar: 0,
            memory: [0; 3],
            waits: 0,
            branches: 0,
            clocks: [0; CLASSES.len()],
            code_bytes: 4 * words.len() as u32,
            bytes: [0; 2],
        };
        let mut rest = words;
        while let Ok((inst, length)) = decode(rest, target) {
            report.count(&inst);
            rest = &rest[length..];
        }
        report
    }

    fn count(&mut self, inst: &doorbell_isa::Inst) {
        let row = inst.row();
        self.instructions += 1;
        if row.is_vector() {
            self.vector += 1;
            self.dual += u32::from(inst.second.is_some());
            self.matrix += u32::from(row.has(Flags::MATRIX));
        }
        if let Some(class) = CLASSES.iter().position(|class| class.0.contains(&row.timing)) {
            self.clocks[class] += row.timing.issue_cycles(self.target.generation());
        }
        let wait = row.name.starts_with("s_wait") || row.name == "s_nop";
        match row.format {
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk if !wait => self.scalar += 1,
            Format::Sopp if row.has(Flags::BRANCHES) => self.branches += 1,
            Format::Smem => self.memory[0] += 1,
            Format::Ds => self.memory[1] += 1,
            Format::Global | Format::Mubuf | Format::Flat | Format::Scratch => {
                self.memory[2] += 1;
                let moved = |kinds: &[doorbell_isa::operand_kind::OperandKind]| {
                    let data =
                        kinds.iter().filter(|kind| kind.class == doorbell_isa::operand_kind::Class::Data);
                    data.map(|kind| 4 * u32::from(kind.ty.dwords())).sum::<u32>()
                };
                self.bytes[0] += if row.has(Flags::LOAD) { moved(row.dst) } else { 0 };
                self.bytes[1] += if row.has(Flags::STORE) { moved(row.src) } else { 0 };
            }
            _ if wait => self.waits += 1,
            _ => {}
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "target          {}", self.target)?;
        writeln!(
            f,
            "registers       {} VGPRs, {} SGPRs, {} waves per SIMD",
            self.vgprs, self.sgprs, self.waves
        )?;
        writeln!(f, "LDS             {} bytes", self.lds_bytes)?;
        if self.scratch_bytes > 0 {
            writeln!(f, "scratch         {} bytes per lane", self.scratch_bytes)?;
        }
        writeln!(f, "code            {} instructions, {} bytes", self.instructions, self.code_bytes)?;
        let Self { vector, dual, matrix, .. } = self;
        writeln!(f, "vector          {vector} ({dual} dual, {matrix} matrix)")?;
        f.write_str("issue clocks   ")?;
        let used = CLASSES.iter().zip(self.clocks).filter(|(_, clocks)| *clocks > 0);
        for (index, ((_, name), clocks)) in used.enumerate() {
            write!(f, "{} {clocks} {name}", if index == 0 { "" } else { "," })?;
        }
        writeln!(f)?;
        writeln!(f, "scalar          {}, {} branches", self.scalar, self.branches)?;
        let [scalar, lds, global] = self.memory;
        writeln!(f, "memory          {scalar} scalar, {lds} LDS, {global} global")?;
        writeln!(f, "bytes per lane  {} loaded, {} stored", self.bytes[0], self.bytes[1])?;
        writeln!(f, "waits           {}", self.waits)
    }
}
