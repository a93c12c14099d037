//! Model families: the meaning of tensors and metadata, and the plans that follow from them.
//!
//! A family is a row of [`Family`]'s table; everything else is a parameter of an operation. Nothing
//! is computed here, and no file is opened.

mod bind;
mod bind_ffn;
mod bind_gemma4;
mod build;
mod error;
mod family;
mod hparams;
mod kv_slots;
mod rope;
mod surplus;
mod weights;

pub use error::{ModelError, Name, TensorFault};
pub use family::{Family, FfnNorm, Recurrence, Routing, WindowPattern};
pub use hparams::{ExpertParams, HyperParams, LayerParams};
pub use rope::{Pairing, Rope};
pub use weights::{
    Attention, Delta, DeltaGateWeights, Ffn, KvGroup, Layer, Mixer, Model, ParallelExperts, Router, Shared,
    StateShape, TokenInput, TokenInputs, Weight,
};
