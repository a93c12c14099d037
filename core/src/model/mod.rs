//! Model families: which tensor is which, what the metadata means, and the plan that follows.
//!
//! A family is a row of [`Family`]'s table; what a row can't say is a parameter of an operation. No arithmetic
//! happens here, and no file is opened.

mod bind;
mod build;
mod error;
mod family;
mod hparams;
mod rope;
mod weights;

pub use error::{ModelError, Name, TensorFault};
pub use family::{Family, FfnNorm, Routing, WindowPattern};
pub use hparams::{ExpertParams, HyperParams, LayerParams};
pub use rope::{Pairing, Rope};
pub use weights::{Ffn, KvGroup, Layer, Model, Router, Shared, Weight};
