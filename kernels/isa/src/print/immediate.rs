//! Text of fixed-form constants: counters, delays, messages, hardware registers.

use core::fmt::{self, Display as _};

use super::is_gfx12;
use crate::chip::Target;
use crate::operand_kind::Immediate;

/// Prints a constant after its separator. An optional constant of zero prints nothing at all.
pub(super) fn print(
    f: &mut fmt::Formatter<'_>,
    immediate: Immediate,
    value: i32,
    separator: &str,
    target: Target,
) -> fmt::Result {
    if immediate == Immediate::Optional && value == 0 {
        return Ok(());
    }
    f.write_str(separator)?;
    let bits = value.cast_unsigned() & 0xffff;
    match immediate {
        Immediate::Hex | Immediate::Offset24 => write!(f, "0x{bits:x}"),
        Immediate::Branch | Immediate::Length | Immediate::Optional => bits.fmt(f),
        Immediate::Decimal => match (bits as u16).cast_signed() {
            small @ 0..=64 => small.fmt(f),
            _ => write!(f, "0x{bits:x}"),
        },
        Immediate::WaitCount => wait_count(f, bits),
        Immediate::Delay => delay(f, bits),
        Immediate::DependencyCounter => dependency_counter(f, bits),
        Immediate::Message | Immediate::MessageReturn => message(f, bits, target),
        Immediate::HardwareRegister => hardware_register(f, bits, target),
    }
}

fn wait_count(f: &mut fmt::Formatter<'_>, bits: u32) -> fmt::Result {
    let fields = [("vmcnt", bits >> 10, 63), ("expcnt", bits & 7, 7), ("lgkmcnt", (bits >> 4) & 63, 63)];
    let all = fields.iter().all(|(_, count, most)| count == most);
    let mut separator = "";
    for (name, count, most) in fields {
        if all || count != most {
            write!(f, "{separator}{name}({count})")?;
            separator = " ";
        }
    }
    Ok(())
}

static DELAYS: [&str; 12] = [
    "NO_DEP",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
];
static SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];

fn delay(f: &mut fmt::Formatter<'_>, bits: u32) -> fmt::Result {
    let fields = [
        ("instid0", bits & 15, &DELAYS[..], "/* invalid instid value */"),
        ("instskip", (bits >> 4) & 7, &SKIPS[..], "/* invalid instskip value */"),
        ("instid1", (bits >> 7) & 15, &DELAYS[..], "/* invalid instid value */"),
    ];
    let mut separator = "";
    for (name, number, names, invalid) in fields {
        if number != 0 {
            let text = names.get(number as usize).unwrap_or(&invalid);
            write!(f, "{separator}{name}({text})")?;
            separator = " | ";
        }
    }
    if separator.is_empty() { f.write_str("0") } else { Ok(()) }
}

fn dependency_counter(f: &mut fmt::Formatter<'_>, bits: u32) -> fmt::Result {
    if bits & 0x60 != 0 {
        return write!(f, "0x{bits:x}");
    }
    let fields = [
        ("depctr_hold_cnt", (bits >> 7) & 1, 1),
        ("depctr_sa_sdst", bits & 1, 1),
        ("depctr_va_vdst", bits >> 12, 15),
        ("depctr_va_sdst", (bits >> 9) & 7, 7),
        ("depctr_va_ssrc", (bits >> 8) & 1, 1),
        ("depctr_va_vcc", (bits >> 1) & 1, 1),
        ("depctr_vm_vsrc", (bits >> 2) & 7, 7),
    ];
    let all = fields.iter().all(|(_, count, most)| count == most);
    let mut separator = "";
    for (name, count, most) in fields {
        if all || count != most {
            write!(f, "{separator}{name}({count})")?;
            separator = " ";
        }
    }
    Ok(())
}

/// A message of `s_sendmsg`.
struct Message {
    number: u32,
    name: &'static str,
    on_gfx11: bool,
    on_gfx12: bool,
}

const fn row(number: u32, name: &'static str, on_gfx11: bool, on_gfx12: bool) -> Message {
    Message { number, name, on_gfx11, on_gfx12 }
}

/// Number, name, present on gfx11, on gfx12.
static MESSAGES: [Message; 14] = [
    row(0x01, "MSG_INTERRUPT", true, true),
    row(0x02, "MSG_HS_TESSFACTOR", true, true),
    row(0x03, "MSG_DEALLOC_VGPRS", true, true),
    row(0x05, "MSG_STALL_WAVE_GEN", true, false),
    row(0x06, "MSG_HALT_WAVES", true, false),
    row(0x09, "MSG_GS_ALLOC_REQ", true, true),
    row(0x80, "MSG_RTN_GET_DOORBELL", true, true),
    row(0x81, "MSG_RTN_GET_DDID", true, true),
    row(0x82, "MSG_RTN_GET_TMA", true, true),
    row(0x83, "MSG_RTN_GET_REALTIME", true, true),
    row(0x84, "MSG_RTN_SAVE_WAVE", true, true),
    row(0x85, "MSG_RTN_GET_TBA", true, true),
    row(0x86, "MSG_RTN_GET_TBA_TO_PC", true, true),
    row(0x87, "MSG_RTN_GET_SE_AID_ID", false, true),
];

fn message(f: &mut fmt::Formatter<'_>, bits: u32, target: Target) -> fmt::Result {
    let gfx12 = is_gfx12(target);
    let named = MESSAGES.iter().find(|message| {
        message.number == bits & 0xff && if gfx12 { message.on_gfx12 } else { message.on_gfx11 }
    });
    match named {
        Some(message) => write!(f, "sendmsg({})", message.name),
        None if bits < 0x100 => write!(f, "sendmsg({bits}, 0, 0)"),
        None => bits.fmt(f),
    }
}

static REGISTERS_GFX11: [(u32, &str); 15] = [
    (1, "MODE"),
    (2, "STATUS"),
    (3, "TRAPSTS"),
    (5, "GPR_ALLOC"),
    (6, "LDS_ALLOC"),
    (7, "IB_STS"),
    (15, "SH_MEM_BASES"),
    (18, "PERF_SNAPSHOT_PC_LO"),
    (19, "PERF_SNAPSHOT_PC_HI"),
    (20, "FLAT_SCR_LO"),
    (21, "FLAT_SCR_HI"),
    (23, "HW_ID1"),
    (24, "HW_ID2"),
    (27, "PERF_SNAPSHOT_DATA"),
    (29, "SHADER_CYCLES"),
];

static REGISTERS_GFX12: [(u32, &str); 22] = [
    (1, "MODE"),
    (2, "STATUS"),
    (4, "STATE_PRIV"),
    (5, "GPR_ALLOC"),
    (6, "LDS_ALLOC"),
    (7, "IB_STS"),
    (10, "PERF_SNAPSHOT_DATA"),
    (11, "PERF_SNAPSHOT_PC_LO"),
    (12, "PERF_SNAPSHOT_PC_HI"),
    (15, "PERF_SNAPSHOT_DATA1"),
    (16, "PERF_SNAPSHOT_DATA2"),
    (17, "EXCP_FLAG_PRIV"),
    (18, "EXCP_FLAG_USER"),
    (19, "TRAP_CTRL"),
    (20, "SCRATCH_BASE_LO"),
    (21, "SCRATCH_BASE_HI"),
    (23, "HW_ID1"),
    (24, "HW_ID2"),
    (29, "SHADER_CYCLES_LO"),
    (30, "SHADER_CYCLES_HI"),
    (31, "DVGPR_ALLOC_LO"),
    (32, "DVGPR_ALLOC_HI"),
];

fn hardware_register(f: &mut fmt::Formatter<'_>, bits: u32, target: Target) -> fmt::Result {
    let (number, offset, size) = (bits & 63, (bits >> 6) & 31, (bits >> 11) + 1);
    let names = if is_gfx12(target) { &REGISTERS_GFX12[..] } else { &REGISTERS_GFX11[..] };
    match names.iter().find(|(register, _)| *register == number) {
        Some((_, name)) => write!(f, "hwreg(HW_REG_{name}")?,
        None => write!(f, "hwreg({number}")?,
    }
    if (offset, size) == (0, 32) { f.write_str(")") } else { write!(f, ", {offset}, {size})") }
}
