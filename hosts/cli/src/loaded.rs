//! Loading of a model file: its metadata, weights, tokenizer and chat template; and reading of texts.

use crate::failure::{Failure, Kind};
use crate::output::note;
use crate::progress::Progress;
use doorbell_core::gguf::{Fault, Gguf};
use doorbell_core::heap::{self, Global, Heap};
use doorbell_core::model::{Model, ModelError};
use doorbell_core::token::{EncodeOptions, TokenId, Tokenizer};
use doorbell_runtime::file::{ModelFile, OpenError};
use doorbell_runtime::memory::host_memory;
use doorbell_runtime::template::{ChatTemplate, TemplateError};
use std::io::IsTerminal as _;
use std::path::Path;

/// The heap for all allocations on the host.
pub(crate) const HEAP: Heap<'static> = &Global;

/// Opens a model file.
pub(crate) fn open(path: &Path) -> Result<ModelFile, Failure> {
    ModelFile::open(path).map_err(unopened)
}

fn unopened(error: OpenError) -> Failure {
    let kind = if error.is_memory() { Kind::Memory } else { Kind::Model };
    Failure::new(kind, error)
}

/// Reads the weights into memory before they are used, if they fit.
pub(crate) fn read_ahead(file: &ModelFile) -> Result<(), Failure> {
    let fits = host_memory().is_some_and(|memory| file.len() < memory.available / 10 * 9);
    if !fits {
        return Ok(());
    }
    let bar = Progress::loading(file.len());
    file.populate(|done, _| bar.set(done)).map_err(unopened)
}

/// Parses the file's metadata and tensor list.
pub(crate) fn parse(file: &ModelFile) -> Result<Gguf<'_>, Failure> {
    Gguf::parse_split(&file.parts(), HEAP).map_err(|error| {
        let path = file.paths().get(error.part).or_else(|| file.paths().first());
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        match error.fault {
            Fault::Memory(_) => Failure::new(Kind::Memory, format_args!("{path}: {error}")),
            fault => Failure::new(Kind::Model, format_args!("{path}: {error}{}", remedy(fault))),
        }
    })
}

/// The next step after a refused file, if the error has none.
fn remedy(fault: Fault) -> &'static str {
    match fault {
        Fault::Version { found: 1 } | Fault::BigEndian | Fault::RemovedType { .. } | Fault::PrivateQ2_0 => "",
        Fault::Version { .. } | Fault::TensorType { .. } => "; get the model in another format",
        Fault::SplitKeys | Fault::SplitCount { .. } | Fault::SplitNumber { .. } => {
            "; keep the parts' own names, NAME-00001-of-0000N.gguf, and all of them in one folder"
        }
        _ => "; download the file again",
    }
}

/// Binds the weights.
pub(crate) fn bind<'f>(file: &'f ModelFile, gguf: &Gguf<'f>) -> Result<Model<'f>, Failure> {
    Model::new(gguf, HEAP).map_err(|error| {
        let kind = if matches!(error, ModelError::Memory(_)) { Kind::Memory } else { Kind::Model };
        let path = file.paths().first().map(|path| path.display().to_string()).unwrap_or_default();
        Failure::new(kind, format_args!("{path}: {error}; `doorbell info` shows what the file holds"))
    })
}

/// Reads the tokenizer.
pub(crate) fn tokenizer<'f>(file: &'f ModelFile, gguf: &Gguf<'f>) -> Result<Tokenizer<'f>, Failure> {
    Tokenizer::new(gguf, HEAP).map_err(|error| {
        let path = file.paths().first().map(|path| path.display().to_string()).unwrap_or_default();
        Failure::new(Kind::Model, format_args!("{path}: tokenizer: {error}"))
    })
}

/// The file's chat template; `None` if it has none.
pub(crate) fn chat_template(
    gguf: &Gguf<'_>,
    tokenizer: &Tokenizer<'_>,
) -> Result<Option<ChatTemplate>, Failure> {
    ChatTemplate::of_model(gguf, tokenizer).map_err(|error| template_failure(error, Kind::Model))
}

/// The failure of a chat template. The message recommends --raw unless the template refuses the conversation or memory is
/// short.
pub(crate) fn template_failure(error: TemplateError, kind: Kind) -> Failure {
    match error {
        TemplateError::NoThread => Failure::new(Kind::Memory, error),
        TemplateError::Raised { .. } | TemplateError::Role { .. } => Failure::new(kind, error),
        error => Failure::new(kind, format_args!("{error}; use --raw to prompt without it")),
    }
}

/// The tokens of a text.
pub(crate) fn encode(
    tokenizer: &Tokenizer<'_>,
    text: &str,
    options: EncodeOptions,
) -> Result<heap::Vec<'static, TokenId>, Failure> {
    let mut tokens = heap::Vec::new_in(HEAP);
    tokenizer.encode(text, options, &mut tokens).map_err(|error| Failure::new(Kind::Input, error))?;
    Ok(tokens)
}

/// Checks that a text is UTF-8, and removes a byte order mark; `name` names its source in messages.
pub(crate) fn utf8(bytes: Vec<u8>, name: &str) -> Result<String, Failure> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Kind::Input, format_args!("{name} is not UTF-8 text (byte {at}); convert it first"))
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

/// The text of a file.
pub(crate) fn text_file(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::new(Kind::Input, format_args!("{name}: {error}; check the path")))?;
    utf8(bytes, &name)
}

/// All of stdin.
pub(crate) fn stdin() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        note("type the text; Ctrl-D at the beginning of a line ends it");
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
        .map_err(|error| Failure::new(Kind::Input, format_args!("cannot read stdin: {error}")))?;
    utf8(bytes, "stdin")
}
