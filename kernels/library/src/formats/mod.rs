//! Block formats of weights: how a lane loads and unpacks them.

pub(crate) mod block32;
pub(crate) mod codes;
pub(crate) mod floats;
pub(crate) mod iq4_xs;
pub(crate) mod lane_format;
pub(crate) mod q4_k_q5_k;
pub(crate) mod q6_k;
pub(crate) mod run;
pub(crate) mod spec;
