//! Pre-tokenizers: hand-written scanners that cut a text exactly as the regular expressions of tokenizer.json
//! do.
//!
//! A rule is a list of stages; each stage splits every piece of the one before, and text that a stage does not
//! match is a piece as well. The rules of models are in `pre`. Text need not be UTF-8: an invalid
//! byte is a character of class `Other`. Every scanner is linear in the length of the text.

use super::class::{Char, Class, LETTER, MARK, NUMBER, PUNCTUATION, SPACE, SYMBOL, Set};

/// One regular expression.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// The family of cl100k, see [`Cl100k`].
    Cl100k(Cl100k),
    /// The family of o200k, see [`O200k`].
    O200k(O200k),
    /// ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*``
    /// `|\s*[\r\n]+|\s+(?!\S)|\s+`
    DeepSeek3,
    /// An optional lead and a run of characters, see [`Run`].
    Run(Run),
    /// `\s+$`
    TrailingSpace,
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
/// and its variants.
#[derive(Clone, Copy, Debug)]
pub struct Cl100k {
    /// Most digits in one piece.
    pub digits: usize,
    /// Words are `[\p{L}\p{M}]+` and punctuation excludes `\p{M}`.
    pub marks: bool,
    /// True if the English contractions are pieces.
    pub contractions: bool,
    /// True if punctuation includes the line ends that follow: `[\r\n]*`.
    pub line_ends: bool,
}

/// `X?U*L+C?|X?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+` with
/// `X = [^\r\n\p{L}\p{N}]`, `U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]`,
/// `C` the contractions.
#[derive(Clone, Copy, Debug)]
pub struct O200k {
    /// Most digits in one piece.
    pub digits: usize,
    /// True if a word includes an English contraction that follows.
    pub contractions: bool,
}

/// An optional lead, then as many characters as possible, from `least` to `most`.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Characters that may come first.
    pub lead: Lead,
    /// Fewest characters after the lead.
    pub least: usize,
    /// Most characters after the lead.
    pub most: usize,
    /// The characters.
    pub of: fn(Char) -> bool,
}

/// The optional first character of a [`Run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// None.
    None,
    /// `\s?`
    Space,
}

/// The result of a stage at a position.
enum Step {
    /// A piece ends here.
    Match(usize),
    /// No piece starts before here.
    Skip(usize),
}

/// Splits `text` by all stages and calls `piece` for the pieces from left to right.
///
/// # Errors
/// The first error of `piece`, which stops the scan.
pub fn split<E>(
    stages: &[Stage],
    text: &[u8],
    piece: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    // The depth is the length of a rule, which is a constant.
    let Some((stage, rest)) = stages.split_first() else { return piece(text) };
    let mut gap = 0;
    let mut at = 0;
    while at < text.len() {
        match stage.step(text, at) {
            Step::Skip(to) => at = to,
            Step::Match(end) => {
                if gap < at {
                    split(rest, &text[gap..at], piece)?;
                }
                split(rest, &text[at..end], piece)?;
                at = end;
                gap = end;
            }
        }
    }
    if gap < text.len() {
        split(rest, &text[gap..], piece)?;
    }
    Ok(())
}

impl Stage {
    fn step(&self, text: &[u8], at: usize) -> Step {
        let end = match self {
            Self::Gpt2 => gpt2(text, at),
            Self::Cl100k(rule) => cl100k(rule, text, at),
            Self::O200k(rule) => o200k(rule, text, at),
            Self::DeepSeek3 => deepseek3(text, at),
            Self::Run(run) => return run_of(run, text, at),
            Self::TrailingSpace => return trailing_space(text, at),
        };
        // `at` is before the end of the text, so that there is a character to step over.
        end.map_or_else(|| Step::Skip(next(text, at)), Step::Match)
    }
}

const NOT_IN_WORDS: Set = SPACE.or(LETTER).or(NUMBER).not();
const WORD: Set = LETTER.or(MARK);

/// End of the character at `at`; always beyond `at`.
fn next(text: &[u8], at: usize) -> usize {
    at + Char::at(text, at).map_or(1, |char| char.len)
}

/// End of the run of `set` that starts at `at`.
fn run(text: &[u8], mut at: usize, set: Set) -> usize {
    while let Some(char) = Char::at(text, at)
        && set.has(char.class)
    {
        at += char.len;
    }
    at
}

/// End of a run of these ASCII bytes.
fn bytes(text: &[u8], mut at: usize, of: &[u8]) -> usize {
    while text.get(at).is_some_and(|byte| of.contains(byte)) {
        at += 1;
    }
    at
}

/// End of at most `most` numbers.
fn numbers(text: &[u8], mut at: usize, most: usize) -> usize {
    for _ in 0..most {
        let Some(char) = Char::at(text, at) else { break };
        if !NUMBER.has(char.class) {
            break;
        }
        at += char.len;
    }
    at
}

/// `'s|'t|'re|'ve|'m|'ll|'d`, and with `fold` its case-insensitive form, where U+017F is an s.
fn contraction(text: &[u8], at: usize, fold: bool) -> Option<usize> {
    let rest = text.get(at..)?;
    let (b'\'', rest) = rest.split_first()? else { return None };
    let letter = |i: usize| {
        let byte = *rest.get(i)?;
        Some(if fold { byte.to_ascii_lowercase() } else { byte })
    };
    match (letter(0)?, letter(1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(at + 2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(at + 3),
        _ if fold && rest.starts_with("\u{17f}".as_bytes()) => Some(at + 3),
        _ => None,
    }
}

/// `\s+(?!\S)|\s+`, and with `lines` before them `\s*[\r\n]+`.
fn space(text: &[u8], at: usize, lines: bool) -> Option<usize> {
    let mut end = at;
    let mut last = at;
    let mut line_end = None;
    while let Some(char) = Char::at(text, end)
        && char.class == Class::Space
    {
        last = end;
        end += char.len;
        if matches!(text[last], b'\r' | b'\n') {
            line_end = Some(end);
        }
    }
    if lines && line_end.is_some() {
        line_end
    } else if end == at {
        None
    } else if end < text.len() && last > at {
        // The last one belongs to the word that follows.
        Some(last)
    } else {
        Some(end)
    }
}

/// ` ?[^\s\p{L}\p{N}]+` and variants: a run of `set` after an optional blank.
fn after_blank(text: &[u8], at: usize, set: Set) -> Option<usize> {
    let start = if text.get(at) == Some(&b' ') { at + 1 } else { at };
    let end = run(text, start, set);
    (end > start).then_some(end)
}

fn gpt2(text: &[u8], at: usize) -> Option<usize> {
    contraction(text, at, false)
        .or_else(|| after_blank(text, at, LETTER))
        .or_else(|| after_blank(text, at, NUMBER))
        .or_else(|| after_blank(text, at, NOT_IN_WORDS))
        .or_else(|| space(text, at, false))
}

/// True if the character may precede a word: `[^\r\n\p{L}\p{N}]`.
fn may_lead(char: Char) -> bool {
    !LETTER.or(NUMBER).has(char.class) && !matches!(char.code, 0x0a | 0x0d)
}

fn cl100k(rule: &Cl100k, text: &[u8], at: usize) -> Option<usize> {
    if rule.contractions
        && let Some(end) = contraction(text, at, true)
    {
        return Some(end);
    }
    let (word, other) =
        if rule.marks { (WORD, SPACE.or(WORD).or(NUMBER).not()) } else { (LETTER, NOT_IN_WORDS) };
    let first = Char::at(text, at)?;
    let start = if !word.has(first.class) && may_lead(first) { at + first.len } else { at };
    let end = run(text, start, word);
    if end > start {
        return Some(end);
    }
    let end = numbers(text, at, rule.digits);
    if end > at {
        return Some(end);
    }
    if let Some(end) = after_blank(text, at, other) {
        return Some(if rule.line_ends { bytes(text, end, b"\r\n") } else { end });
    }
    space(text, at, true)
}

const UPPER: Set = Set::of(&[Class::Upper, Class::Title, Class::Modifier, Class::OtherLetter, Class::Mark]);
const LOWER: Set = Set::of(&[Class::Lower, Class::Modifier, Class::OtherLetter, Class::Mark]);

/// End of `U*L+` at `at`.
fn lower_word(text: &[u8], at: usize) -> Option<usize> {
    let mut upper = at;
    // The last character of the U run that is an L as well: the expression backtracks to it.
    let mut both = None;
    while let Some(char) = Char::at(text, upper)
        && UPPER.has(char.class)
    {
        if LOWER.has(char.class) {
            both = Some(upper + char.len);
        }
        upper += char.len;
    }
    let end = run(text, upper, LOWER);
    if end > upper { Some(end) } else { both }
}

/// End of `U+L*` at `at`.
fn upper_word(text: &[u8], at: usize) -> Option<usize> {
    let upper = run(text, at, UPPER);
    (upper > at).then(|| run(text, upper, LOWER))
}

fn o200k(rule: &O200k, text: &[u8], at: usize) -> Option<usize> {
    let first = Char::at(text, at)?;
    let behind = may_lead(first).then_some(at + first.len);
    let word = behind
        .and_then(|start| lower_word(text, start))
        .or_else(|| lower_word(text, at))
        .or_else(|| behind.and_then(|start| upper_word(text, start)))
        .or_else(|| upper_word(text, at));
    if let Some(end) = word {
        let tail = if rule.contractions { contraction(text, end, true) } else { None };
        return Some(tail.unwrap_or(end));
    }
    let end = numbers(text, at, rule.digits);
    if end > at {
        return Some(end);
    }
    if let Some(end) = after_blank(text, at, NOT_IN_WORDS) {
        return Some(bytes(text, end, b"\r\n/"));
    }
    space(text, at, true)
}

/// The last stage of DeepSeek-V3.
fn deepseek3(text: &[u8], at: usize) -> Option<usize> {
    let first = Char::at(text, at)?;
    let start = at + first.len;
    if text[at].is_ascii_punctuation() {
        let letters = text[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        if letters > 0 {
            return Some(start + letters);
        }
    }
    let lead = !WORD.or(PUNCTUATION).or(SYMBOL).has(first.class) && !matches!(first.code, 0x0a | 0x0d);
    let start = if lead { start } else { at };
    let end = run(text, start, WORD);
    if end > start {
        return Some(end);
    }
    if let Some(end) = after_blank(text, at, PUNCTUATION.or(SYMBOL)) {
        return Some(bytes(text, end, b"\r\n"));
    }
    space(text, at, true)
}

fn run_of(rule: &Run, text: &[u8], at: usize) -> Step {
    let Some(first) = Char::at(text, at) else { return Step::Skip(at + 1) };
    let leads = match rule.lead {
        Lead::None => false,
        Lead::Space => first.class == Class::Space,
    };
    let count = |start: usize| {
        let mut end = start;
        let mut found = 0;
        while found < rule.most
            && let Some(char) = Char::at(text, end)
            && (rule.of)(char)
        {
            end += char.len;
            found += 1;
        }
        (found >= rule.least).then_some(end)
    };
    let behind = if leads { count(at + first.len) } else { None };
    behind.or_else(|| count(at)).map_or(Step::Skip(at + first.len), Step::Match)
}

fn trailing_space(text: &[u8], at: usize) -> Step {
    let end = run(text, at, SPACE);
    if end == at {
        Step::Skip(next(text, at))
    } else if end == text.len() {
        Step::Match(end)
    } else {
        // Skipping the whole run keeps the scan linear.
        Step::Skip(end)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::super::pre::Pre;

    /// Cuts `text` and checks that the pieces are `expected`.
    fn check(pre: &str, text: &str, expected: &[&str]) {
        let mut pieces = alloc::vec::Vec::new();
        let rule = Pre::named(pre.as_bytes()).unwrap();
        super::split::<()>(rule.stages, text.as_bytes(), &mut |piece| {
            pieces.push(alloc::string::String::from_utf8(piece.to_vec()).unwrap());
            Ok(())
        })
        .unwrap();
        assert_eq!(pieces, expected, "{pre}: {text:?}");
    }

    /// The few cases that a reader can follow; the goldens hold hundreds.
    #[test]
    fn splits_that_differ_between_rules() {
        check(
            "gpt-2",
            "I'LL we'll  go\n\n 12345",
            &["I", "'", "LL", " we", "'ll", " ", " go", "\n\n", " 12345"],
        );
        check("llama-bpe", "I'LL go\n\n 12345", &["I", "'LL", " go", "\n\n", " ", "123", "45"]);
        check("qwen2", "x=12", &["x", "=", "1", "2"]);
        check("qwen2", "e\u{301}a", &["e", "\u{301}a"]);
        check("qwen35", "e\u{301}a", &["e\u{301}a"]);
        check("gpt-4o", "HelloWorld's/\n", &["Hello", "World's", "/\n"]);
        check("tekken", "HelloWorld's", &["Hello", "World", "'s"]);
        check("starcoder", "a 12", &["a", " ", "1", "2"]);
        check("deepseek-v3", "1234中文abc.def", &["123", "4", "中文", "abc", ".def"]);
        check("falcon", "a, 1234", &["a", ",", " ", "123", "4"]);
        check("gemma4", "a b\n\nc", &["a b", "\n\n", "c"]);
    }

    #[test]
    fn bytes_that_are_not_text_are_kept() {
        for pre in Pre::all() {
            let text = b"a\xe6\xad \xff\xff'\xc5\n\x80";
            let mut joined = alloc::vec::Vec::new();
            super::split::<()>(pre.stages, text, &mut |piece| {
                assert!(!piece.is_empty());
                joined.extend_from_slice(piece);
                Ok(())
            })
            .unwrap();
            assert_eq!(joined, text);
        }
    }
}
