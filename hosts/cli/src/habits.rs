//! Command lines of llama.cpp and Ollama: what means the same here is understood, and the rest is answered in a sentence.

use core::str::FromStr;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags of llama.cpp that clap can't have as aliases, because they have several letters behind one hyphen.
const FLAGS: [(&str, &str); 2] = [("-ngl", "--gpu-layers"), ("-ctk", "--kv")];

/// Verbs that others have, and what to do instead.
const VERBS: [(&str, &str); 8] = [
    ("pull", "doorbell downloads nothing; fetch a .gguf file and give its path"),
    ("list", "doorbell keeps no list of models; give the path of a .gguf file"),
    ("ls", "doorbell keeps no list of models; give the path of a .gguf file"),
    ("ps", "a server tells what it runs: curl localhost:13305/api/ps"),
    ("stop", "Ctrl-C or SIGTERM ends a server"),
    ("show", "use doorbell info FILE"),
    ("create", "give --system and the sampling flags to doorbell run or doorbell serve"),
    ("rm", "a model is a file; delete it as any other"),
];

/// The arguments, program's name first, in our own words; or a sentence for the user.
pub(crate) fn translate(
    arguments: impl IntoIterator<Item = OsString>,
    is_verb: impl Fn(&OsStr) -> bool,
) -> Result<Vec<OsString>, String> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    for argument in arguments.iter_mut().skip(1) {
        if argument == "--" {
            break;
        }
        if let Some((_, ours)) = FLAGS.iter().find(|(theirs, _)| argument == theirs) {
            *argument = (*ours).into();
        }
        if ["-hf", "--hf-repo", "-hfr"].iter().any(|flag| argument == flag) {
            return Err("doorbell downloads nothing; fetch a .gguf file and give its path".to_owned());
        }
    }
    // -m FILE is the first argument behind the verb here
    let model = arguments.iter().position(|argument| argument == "-m" || argument == "--model");
    if let Some(at) = model.filter(|&at| at > 0 && at + 1 < arguments.len()) {
        let file = arguments.remove(at + 1);
        arguments.remove(at);
        let behind_verb = if arguments.get(1).is_some_and(|verb| is_verb(verb)) { 2 } else { 1 };
        arguments.insert(behind_verb, file);
    }
    let Some(first) = arguments.get(1) else { return Ok(arguments) };
    if is_verb(first) {
        return Ok(arguments);
    }
    if let Some((verb, remedy)) = VERBS.iter().find(|(verb, _)| first == verb) {
        return Err(format!("there is no verb {verb}: {remedy}"));
    }
    if Path::new(first).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        arguments.insert(1, "run".into());
    }
    Ok(arguments)
}

/// Parses a number of tokens, such as 4096 or 32k.
pub(crate) fn tokens(text: &str) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = lower.strip_suffix('k').map_or((lower.as_str(), 1), |digits| (digits, 1024));
    let number = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|&number| number > 0).ok_or_else(|| "use a number such as 4096, or 32k".to_owned())
}

/// A seed; none is a random one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) Option<u64>);

impl FromStr for Seed {
    type Err = &'static str;

    /// Parses a number; -1 is a random seed, as in llama.cpp.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "-1" {
            return Ok(Self(None));
        }
        text.parse()
            .map(|seed| Self(Some(seed)))
            .map_err(|_| "use a number from 0 on, or -1 for a random one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from);
        let words = translate(words, |verb| verb == "run" || verb == "serve")?;
        Ok(words.join(OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn others_command_lines_are_understood() {
        for (theirs, ours) in [
            ("doorbell", "doorbell"),
            ("doorbell a.gguf", "doorbell run a.gguf"),
            ("doorbell a.GGUF -p x", "doorbell run a.GGUF -p x"),
            ("doorbell -m a.gguf -p x", "doorbell run a.gguf -p x"),
            ("doorbell serve --port 1 -m a.gguf", "doorbell serve a.gguf --port 1"),
            ("doorbell run a.gguf -ngl 99", "doorbell run a.gguf --gpu-layers 99"),
            ("doorbell run a.gguf -- -ngl", "doorbell run a.gguf -- -ngl"),
            ("doorbell run a.gguf -m", "doorbell run a.gguf -m"),
            ("doorbell --help", "doorbell --help"),
            ("doorbell runn a.gguf", "doorbell runn a.gguf"),
        ] {
            assert_eq!(translated(theirs).as_deref(), Ok(ours));
        }
        for (line, part) in [
            ("doorbell pull qwen", "downloads nothing"),
            ("doorbell run -hf a/b", "downloads nothing"),
            ("doorbell ps", "api/ps"),
        ] {
            let sentence = translated(line).unwrap_err();
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    #[test]
    fn numbers_have_suffixes() {
        assert_eq!((tokens("4096"), tokens("32k"), tokens("1K")), (Ok(4096), Ok(32768), Ok(1024)));
        for wrong in ["0", "k", "-1", "4.5k", "9999999k", ""] {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
        assert_eq!(("-1".parse(), "7".parse()), (Ok(Seed(None)), Ok(Seed(Some(7)))));
        assert!(Seed::from_str("-2").is_err() && Seed::from_str("x").is_err());
    }
}
