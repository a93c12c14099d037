//! The model that a server answers with, and facts of its file.

use alloc::sync::Arc;
use core::fmt;
use doorbell_core::gguf::{Gguf, KeyError};
use doorbell_core::sample::{DryBreakers, LogitBias, SamplerParams};
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_runtime::serve::Service;
use doorbell_runtime::template::{ChatTemplate, SpecialTokens, TemplateError};

/// Facts of a model that APIs report.
#[derive(Clone, Debug, Default)]
pub struct ModelInfo {
    /// `general.architecture`
    pub architecture: String,
    /// Name of the tensor type that has most bytes.
    pub quantization: String,
    /// Number of weights.
    pub parameters: u64,
    /// Size of the weights, bytes.
    pub bytes: u64,
    /// Width of an embedding.
    pub embedding: u32,
    /// Context length of the training, tokens.
    pub trained_context: u32,
    /// Description of the device.
    pub device: String,
    /// True if the device is a GPU.
    pub on_gpu: bool,
}

/// The model of a server, ready to answer.
pub struct ModelHandle {
    /// Name that clients use.
    pub name: String,
    /// Its tokenizer.
    pub tokenizer: &'static Tokenizer<'static>,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// The engine that runs it.
    pub service: Service,
    /// Sampling parameters of requests that set none.
    pub defaults: SamplerParams,
    /// Tokens that are never sampled.
    pub suppressed: Vec<LogitBias>,
    /// Context length, tokens of a prompt and its answer.
    pub context: u32,
    /// Sequences that are computed at once.
    pub parallel: u32,
    /// Sequences that may wait for those.
    pub waiting: u32,
    /// True if a conversation that the template refuses is rendered again with merged roles.
    pub merge_messages: bool,
    /// True if tools are refused that the template does not print, instead of describing them in the system text.
    pub template_tools_only: bool,
    /// File name.
    pub file: String,
    /// Seed of requests that set none; without one, each request has its own.
    pub seed: Option<u64>,
    /// DRY breakers of requests that set none; without them, llama.cpp's defaults.
    pub dry_breakers: Option<Arc<DryBreakers<'static>>>,
    /// Facts of the model.
    pub info: ModelInfo,
}

/// Reason why a model can't be served.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelHandleError {
    /// The chat template is wrong.
    Template(TemplateError),
    /// A key of the file has a value of the wrong type.
    Key(KeyError),
}

impl fmt::Display for ModelHandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(error) => error.fmt(f),
            Self::Key(error) => write!(f, "metadata: {error}"),
        }
    }
}

impl core::error::Error for ModelHandleError {}

/// A started engine, and facts of it that APIs report.
pub struct RunningEngine {
    /// The engine that runs the model.
    pub service: Service,
    /// Context length, tokens of a prompt and its answer.
    pub context: u32,
    /// Sequences that are computed at once.
    pub parallel: u32,
    /// Sequences that may wait for those.
    pub waiting: u32,
    /// Description of the device.
    pub device: String,
    /// True if the device is a GPU.
    pub on_gpu: bool,
}

impl ModelHandle {
    /// A model with the template and the sampling parameters of its file.
    ///
    /// # Errors
    /// [`ModelHandleError`]
    pub fn new(
        name: String,
        gguf: &Gguf<'_>,
        tokenizer: &'static Tokenizer<'static>,
        engine: RunningEngine,
    ) -> Result<Self, ModelHandleError> {
        let template = ChatTemplate::of_model(gguf, tokenizer).map_err(ModelHandleError::Template)?;
        let ban = |&token: &TokenId| LogitBias { token, bias: f32::NEG_INFINITY };
        Ok(Self {
            name,
            tokenizer,
            template,
            service: engine.service,
            defaults: SamplerParams::of_model(gguf).map_err(ModelHandleError::Key)?,
            suppressed: tokenizer.suppressed().iter().map(ban).collect(),
            context: engine.context,
            parallel: engine.parallel,
            waiting: engine.waiting,
            merge_messages: false,
            template_tools_only: false,
            file: String::new(),
            seed: None,
            dry_breakers: None,
            info: ModelInfo { device: engine.device, on_gpu: engine.on_gpu, ..model_info(gguf) },
        })
    }

    /// The same model with another chat template.
    ///
    /// # Errors
    /// [`ModelHandleError::Template`]
    pub fn with_template(self, source: &str) -> Result<Self, ModelHandleError> {
        let template = ChatTemplate::new(source, SpecialTokens::of(self.tokenizer));
        Ok(Self { template: Some(template.map_err(ModelHandleError::Template)?), ..self })
    }

    /// True if tools reach the model: the template prints them, or they are described in general.
    pub(crate) fn takes_tools(&self) -> bool {
        self.template.as_ref().is_some_and(|template| template.prints_tools() || !self.template_tools_only)
    }

    /// Source of the chat template; empty if there is none.
    pub(crate) fn template_source(&self) -> &str {
        self.template.as_ref().map_or("", ChatTemplate::source)
    }
}

/// Reads the facts that are in the file.
fn model_info(gguf: &Gguf<'_>) -> ModelInfo {
    let architecture = gguf.get("general.architecture").and_then(|value| value.text()).unwrap_or_default();
    let number = |key: &str| {
        let value = gguf.find::<u32>(&format!("{architecture}.{key}"));
        value.ok().flatten().unwrap_or(0)
    };
    let mut parameters = 0_u64;
    let mut bytes = 0_u64;
    // bytes of each tensor type
    let mut types: Vec<(String, u64)> = Vec::new();
    for tensor in gguf.tensors() {
        let elements = tensor.dims.iter().fold(1_u64, |product, &dim| product.saturating_mul(dim));
        parameters = parameters.saturating_add(elements);
        let size = tensor.data.len() as u64;
        bytes = bytes.saturating_add(size);
        let ty = tensor.ty.name();
        match types.iter_mut().find(|(known, _)| known == ty) {
            Some((_, sum)) => *sum = sum.saturating_add(size),
            None => types.push((ty.to_owned(), size)),
        }
    }
    let quantization = types.into_iter().max_by_key(|&(_, size)| size).map(|(ty, _)| ty);
    ModelInfo {
        architecture: architecture.to_owned(),
        quantization: quantization.unwrap_or_default(),
        parameters,
        bytes,
        embedding: number("embedding_length"),
        trained_context: number("context_length"),
        ..ModelInfo::default()
    }
}
