//! Parts of a sequence: the positions of a wave, and the waves of a split.

use crate::attention::shape::PAGE;

/// Positions of a wave.
pub(crate) const PART: u32 = PAGE / 2;
/// Waves of a workgroup, and parts of a split.
pub(crate) const WAVES: u32 = 8;
