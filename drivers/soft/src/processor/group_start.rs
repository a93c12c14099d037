//! The initial state of a workgroup: lanes, work-item ids, user SGPRs, group ids.
//!
//! Not here: the order in which groups run (`engine.rs`).

use alloc::boxed::Box;
use alloc::format;

use doorbell_isa::{Generation, Target};

use super::dispatch::Dispatch;
use super::group::{Group, GroupState};
use super::mode::Mode;
use super::options::{Level, Options};
use super::registers::{EXEC, Register, TTMP};
use super::scalar_hazard::ScalarReads;
use super::tracker::Tracker;
use super::wave::Wave;

/// A group before its first instruction; work-items beyond the grid do not exist.
pub(super) fn make_group(target: Target, dispatch: &Dispatch, id: [u32; 3], options: &Options) -> Group {
    let strict = options.level == Level::Strict;
    let watches_scalars = options.scalar_reads && target.generation() == Generation::Gfx12;
    let mut size = [1; 3];
    for (axis, size) in size.iter_mut().enumerate() {
        let start = id[axis].saturating_mul(dispatch.group[axis]);
        *size = dispatch.group[axis].max(1).min(dispatch.grid[axis].saturating_sub(start)).max(1);
    }
    let items: u32 = size.iter().product();
    let mut state = GroupState::new(id, dispatch.lds, strict);
    if strict {
        state.kernel = match dispatch.name.as_str() {
            "" => format!("kernel at {:#x}", dispatch.entry),
            name => name.into(),
        };
    }
    let waves = (0..items.div_ceil(32))
        .map(|number| {
            let mut wave = Wave::new(target, dispatch.vgprs, dispatch.scratch);
            wave.number = number;
            wave.pc = dispatch.entry;
            wave.mode = Mode(dispatch.mode);
            wave.perturb = options.perturb;
            let lanes = (items - number * 32).min(32);
            wave.sgpr[EXEC] = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
            if let Some(ids) = wave.vgpr.first_mut() {
                for (lane, slot) in (0u32..).zip(ids.iter_mut()) {
                    let item = number * 32 + lane;
                    let [x, y, z] = [item % size[0], item / size[0] % size[1], item / size[0] / size[1]];
                    *slot = x | y << 10 | z << 20;
                }
            }
            if strict {
                let mut tracker = Tracker::new(dispatch.vgprs, dispatch.scratch.saturating_mul(32));
                tracker.scalar_reads = watches_scalars.then(ScalarReads::default);
                wave.tracker = Some(Box::new(tracker));
                define(&mut wave, Register::Vector(0));
            }
            set_scalars(&mut wave, dispatch, id);
            wave
        })
        .collect();
    Group { state, waves }
}

fn define(wave: &mut Wave, register: Register) {
    let Some(tracker) = &mut wave.tracker else { return };
    match register {
        Register::Vector(number) => tracker.clear_lanes(number, u32::MAX, u32::MAX),
        Register::Scalar(number) => tracker.scalar[number & 127] = 0,
    }
}

/// User SGPRs and group ids. gfx12 has the ids in ttmp9 and ttmp7 (docs/facts/rdna.md, initial wave state).
fn set_scalars(wave: &mut Wave, dispatch: &Dispatch, id: [u32; 3]) {
    for (number, value) in dispatch.user.iter().enumerate() {
        wave.set_scalar(number, *value);
        if dispatch.user_defined >> number & 1 != 0 {
            define(wave, Register::Scalar(number));
        }
    }
    if wave.is_gfx12() {
        wave.sgpr[TTMP + 9] = id[0];
        wave.sgpr[TTMP + 7] = id[1] & 0xffff | id[2] << 16;
        define(wave, Register::Scalar(TTMP + 9));
        define(wave, Register::Scalar(TTMP + 7));
        return;
    }
    let wanted = id.iter().zip(dispatch.ids).filter(|(_, wanted)| *wanted);
    for (number, (value, _)) in (dispatch.user.len()..).zip(wanted) {
        wave.set_scalar(number, *value);
        define(wave, Register::Scalar(number));
    }
}
