//! The model that a server serves, and what is known about its file.

use alloc::sync::Arc;
use core::fmt;
use doorbell_core::gguf::{Gguf, KeyError};
use doorbell_core::sample::{DryBreakers, LogitBias, SamplerParams};
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_runtime::serve::Service;
use doorbell_runtime::template::{ChatTemplate, SpecialTokens, TemplateError};

/// What is known about a model file.
#[derive(Clone, Debug, Default)]
pub struct ModelInfo {
    /// `general.architecture`
    pub architecture: String,
    /// The type of most weights.
    pub quantization: String,
    /// Weights in all.
    pub parameters: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Length of a token's vector.
    pub embedding: u32,
    /// Tokens that it was trained for.
    pub trained_context: u32,
    /// What computes, for people.
    pub device: String,
    /// Whether that is a GPU.
    pub on_gpu: bool,
}

/// The one model of a server, ready to answer.
pub struct ModelHandle {
    /// What clients call it.
    pub name: String,
    /// Its tokenizer.
    pub tokenizer: &'static Tokenizer<'static>,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// The engine that runs it.
    pub service: Service,
    /// How tokens are picked where a request doesn't say.
    pub defaults: SamplerParams,
    /// Tokens that are never picked.
    pub suppressed: Vec<LogitBias>,
    /// Tokens of a prompt and its answer.
    pub context: u32,
    /// Requests that are computed at a time.
    pub parallel: u32,
    /// Whether conversations that the template refuses are told again with the roles that it extras.
    pub merge_messages: bool,
    /// The name of the file.
    pub file: String,
    /// The seed of requests that name none; with none, each has its own.
    pub seed: Option<u64>,
    /// Where repetitions end, for DRY, where a request doesn't say; with none, at the usual places.
    pub breakers: Option<Arc<DryBreakers<'static>>>,
    /// What is known about the file.
    pub info: ModelInfo,
}

/// Why a model can't be served.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelHandleError {
    /// The chat template is wrong.
    Template(TemplateError),
    /// A key of the file has a value that doesn't fit.
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

/// What a server needs beside the file.
pub struct RunningEngine {
    /// The engine that runs the model.
    pub service: Service,
    /// Tokens of a prompt and its answer.
    pub context: u32,
    /// Requests that are computed at a time.
    pub parallel: u32,
    /// What computes, for people.
    pub device: String,
    /// Whether that is a GPU.
    pub on_gpu: bool,
}

impl ModelHandle {
    /// A model as its file describes it.
    ///
    /// # Errors
    /// [`ModelHandleError`]
    pub fn new(
        name: String,
        gguf: &Gguf<'_>,
        tokenizer: &'static Tokenizer<'static>,
        running: RunningEngine,
    ) -> Result<Self, ModelHandleError> {
        let template = ChatTemplate::of_model(gguf, tokenizer).map_err(ModelHandleError::Template)?;
        let ban = |&token: &TokenId| LogitBias { token, bias: f32::NEG_INFINITY };
        Ok(Self {
            name,
            tokenizer,
            template,
            service: running.service,
            defaults: SamplerParams::of_model(gguf).map_err(ModelHandleError::Key)?,
            suppressed: tokenizer.suppressed().iter().map(ban).collect(),
            context: running.context,
            parallel: running.parallel,
            merge_messages: false,
            file: String::new(),
            seed: None,
            breakers: None,
            info: ModelInfo { device: running.device, on_gpu: running.on_gpu, ..model_info(gguf) },
        })
    }
}

impl ModelHandle {
    /// The same model with another chat template.
    ///
    /// # Errors
    /// [`ModelHandleError::Template`]
    pub fn with_template(self, source: &str) -> Result<Self, ModelHandleError> {
        let template = ChatTemplate::new(source, SpecialTokens::of(self.tokenizer));
        let template = Some(template.map_err(ModelHandleError::Template)?);
        Ok(Self { template, ..self })
    }
}

fn model_info(gguf: &Gguf<'_>) -> ModelInfo {
    let architecture = gguf.get("general.architecture").and_then(|value| value.text()).unwrap_or_default();
    let number = |key: &str| {
        let value = gguf.find::<u32>(&format!("{architecture}.{key}"));
        value.ok().flatten().unwrap_or(0)
    };
    let mut parameters = 0_u64;
    let mut bytes = 0_u64;
    // the type that holds most bytes
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for tensor in gguf.tensors() {
        let elements = tensor.dims.iter().fold(1_u64, |product, &dim| product.saturating_mul(dim));
        parameters = parameters.saturating_add(elements);
        let size = tensor.data.len() as u64;
        bytes = bytes.saturating_add(size);
        let kind = tensor.ty.name();
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(size),
            None => kinds.push((kind.to_owned(), size)),
        }
    }
    let quantization = kinds.into_iter().max_by_key(|&(_, size)| size).map(|(kind, _)| kind);
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
