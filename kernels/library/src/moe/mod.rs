//! Mixture of experts: the choice, experts of single rows, and rows grouped by expert.

pub(crate) mod combine;
pub(crate) mod experts;
pub(crate) mod experts_down;
pub(crate) mod experts_up;
pub(crate) mod group_rows;
pub(crate) mod grouped_gemm;
pub(crate) mod grouped_launch;
pub(crate) mod grouped_output;
pub(crate) mod grouped_spec;
pub(crate) mod launch;
pub(crate) mod route;
pub(crate) mod route_launch;
