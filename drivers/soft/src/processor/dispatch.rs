//! One kernel launch.
//!
//! Not here: its descriptor (`code`), its packet (`command`), running it (`engine.rs`).

use alloc::string::String;
use alloc::vec::Vec;

/// One kernel launch, as the command processor has read it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dispatch {
    /// Name in reports.
    pub name: String,
    /// Address of the first instruction.
    pub entry: u64,
    /// Work-items per dimension.
    pub grid: [u32; 3],
    /// Work-items per group and dimension.
    pub group: [u32; 3],
    /// LDS bytes per group.
    pub lds: usize,
    /// Scratch bytes per work-item.
    pub scratch: usize,
    /// Vector registers per wave.
    pub vgprs: usize,
    /// Initial scalar registers from s0 (user SGPRs with their padding).
    pub user: Vec<u32>,
    /// User SGPRs that hold a value, a bit each.
    pub user_defined: u32,
    /// Group ids X, Y, Z wanted in scalar registers.
    pub ids: [bool; 3],
    /// MODE.
    pub mode: u32,
}

/// Total number of groups, saturating.
pub(super) fn group_count(dispatch: &Dispatch) -> u64 {
    groups(dispatch).into_iter().fold(1, |product, count| product.saturating_mul(count.into()))
}

/// Groups per dimension.
pub(super) fn groups(dispatch: &Dispatch) -> [u32; 3] {
    let mut count = [0; 3];
    for (count, (grid, group)) in count.iter_mut().zip(dispatch.grid.iter().zip(dispatch.group)) {
        *count = grid.div_ceil(group.max(1));
    }
    count
}
