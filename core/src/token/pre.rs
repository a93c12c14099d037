//! The scanners and defaults of each `tokenizer.ggml.pre`: one row per rule.
//!
//! The scanners are in `split`. A name that is not here is an error when a file is loaded, because a wrong
//! rule gives a model input that it was not trained on. Source: `llama-vocab.cpp` (llama.cpp, 2026) for names and
//! defaults, the models' tokenizer.json for the expressions.

use super::class::{Char, Class, LETTER, NUMBER, PUNCTUATION};
use super::split::{Cl100k, Lead, O200k, Run, Stage};

/// One row: names, scanners, and the defaults of a byte-level tokenizer with these names.
#[derive(Debug)]
pub struct Pre {
    /// Values of `tokenizer.ggml.pre`.
    pub names: &'static [&'static str],
    /// The scanners, in order.
    pub stages: &'static [Stage],
    /// A word that is a token is not built by merges.
    pub ignore_merges: bool,
    /// A BOS token comes first unless the file says otherwise.
    pub add_bos: bool,
    /// Detokenizing a whole text removes blanks before punctuation.
    pub clean_spaces: bool,
    /// The conversion of text to the alphabet of the vocabulary.
    pub alphabet: Alphabet,
    /// There is no BOS token unless the file names one.
    pub without_bos: bool,
}

/// The symbols that merges start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Bytes, spelled by 256 printable characters.
    Bytes,
    /// Characters, with U+2581 for a blank; bytes as `<0xNN>` if a character is no token.
    Characters,
}

/// The defaults of each row.
const PLAIN: Pre = Pre {
    names: &[],
    stages: &[],
    ignore_merges: false,
    add_bos: false,
    clean_spaces: true,
    alphabet: Alphabet::Bytes,
    without_bos: false,
};

const ASCII_DIGIT: fn(Char) -> bool = |char| matches!(char.code, 0x30..=0x39);
const LINE_FEED: fn(Char) -> bool = |char| char.code == 0x0a;
const LINE_END: fn(Char) -> bool = |char| matches!(char.code, 0x0a | 0x0d);
const IS_LETTER: fn(Char) -> bool = |char| LETTER.has(char.class);
const IS_NUMBER: fn(Char) -> bool = |char| NUMBER.has(char.class);
const IS_PUNCTUATION: fn(Char) -> bool = |char| PUNCTUATION.has(char.class);
/// `[\p{P}\$\+<=>\^~\|]`
const PUNCTUATION_OR_OPERATOR: fn(Char) -> bool =
    |char| PUNCTUATION.has(char.class) || matches!(char.code, 0x24 | 0x2b | 0x3c..=0x3e | 0x5e | 0x7c | 0x7e);
/// The same with the back quote.
const ASCII_PUNCTUATION: fn(Char) -> bool = |char| PUNCTUATION_OR_OPERATOR(char) || char.code == 0x60;
/// `[一-龥぀-ゟ゠-ヿ]`
const CJK: fn(Char) -> bool = |char| matches!(char.code, 0x4e00..=0x9fa5 | 0x3040..=0x30ff);
/// `[一-龥ࠀ-一가-퟿]`
const DEEPSEEK_CJK: fn(Char) -> bool = |char| matches!(char.code, 0x0800..=0x9fa5 | 0xac00..=0xd7ff);
/// `[!-/:-~！-／：-～‘-‟　-。]`
const DEEPSEEK_PUNCTUATION: fn(Char) -> bool = |char| {
    matches!(char.code,
        0x21..=0x2f | 0x3a..=0x7e | 0xff01..=0xff0f | 0xff1a..=0xff5e | 0x2018..=0x201f | 0x3000..=0x3002)
};
const DEEPSEEK_LETTER: fn(Char) -> bool = |char| {
    if char.code < 0x80 {
        return matches!(char.class, Class::Upper | Class::Lower);
    }
    let behind = DEEPSEEK_LETTERS.partition_point(|&(first, _)| first <= char.code);
    behind > 0 && char.code <= DEEPSEEK_LETTERS[behind - 1].1
};

/// The cased letters of deepseek-llm's expression, which lists their ranges.
#[rustfmt::skip]
static DEEPSEEK_LETTERS: [(u32, u32); 87] = [
    (0x0041, 0x005a), (0x0061, 0x007a), (0x00b5, 0x00b5), (0x00c0, 0x00d6), (0x00d8, 0x00f6),
    (0x00f8, 0x01ba), (0x01bc, 0x01bf), (0x01c4, 0x0293), (0x0295, 0x02af), (0x0370, 0x0373),
    (0x0376, 0x0376), (0x0377, 0x0377), (0x037b, 0x037d), (0x037f, 0x037f), (0x0386, 0x0386),
    (0x0388, 0x038a), (0x038c, 0x038c), (0x038e, 0x03a1), (0x03a3, 0x03f5), (0x03f7, 0x0481),
    (0x048a, 0x052f), (0x0531, 0x0556), (0x10a0, 0x10c5), (0x13a0, 0x13f5), (0x13f8, 0x13fd),
    (0x1c90, 0x1cba), (0x1cbd, 0x1cbf), (0x1d00, 0x1d2b), (0x1d6b, 0x1d77), (0x1d79, 0x1d9a),
    (0x1e00, 0x1f15), (0x1f18, 0x1f1d), (0x1f20, 0x1f45), (0x1f48, 0x1f4d), (0x1f50, 0x1f57),
    (0x1f59, 0x1f59), (0x1f5b, 0x1f5b), (0x1f5d, 0x1f5d), (0x1f5f, 0x1f7d), (0x1f80, 0x1fb4),
    (0x1fb6, 0x1fbc), (0x1fbe, 0x1fbe), (0x1fc2, 0x1fc4), (0x1fc6, 0x1fcc), (0x1fd0, 0x1fd3),
    (0x1fd6, 0x1fdb), (0x1fe0, 0x1fec), (0x1ff2, 0x1ff4), (0x1ff6, 0x1ffc), (0x2102, 0x2102),
    (0x2107, 0x2107), (0x210a, 0x2113), (0x2115, 0x2115), (0x2119, 0x211d), (0x2124, 0x2124),
    (0x2126, 0x2126), (0x2128, 0x2128), (0x212a, 0x212d), (0x212f, 0x2134), (0x2139, 0x2139),
    (0x213c, 0x213f), (0x2145, 0x2149), (0x214e, 0x214e), (0x2183, 0x2183), (0x2184, 0x2184),
    (0x2c00, 0x2c7b), (0x2c7e, 0x2ce4), (0x2ceb, 0x2cee), (0x2cf2, 0x2cf2), (0x2cf3, 0x2cf3),
    (0xa640, 0xa66d), (0xa680, 0xa69b), (0xa722, 0xa76f), (0xa771, 0xa787), (0xa78b, 0xa78e),
    (0xab70, 0xabbf), (0xfb00, 0xfb06), (0xfb13, 0xfb17), (0xff21, 0xff3a), (0xff41, 0xff5a),
    (0x10400, 0x1044f), (0x104b0, 0x104d3), (0x104d8, 0x104fb), (0x10c80, 0x10cb2), (0x10cc0, 0x10cf2),
    (0x118a0, 0x118df), (0x1e900, 0x1e943),
];

/// A run of at least one character.
const fn run(lead: Lead, most: usize, of: fn(Char) -> bool) -> Stage {
    Stage::Run(Run { lead, least: 1, most, of })
}

const ANY: usize = usize::MAX;
const QWEN2: Cl100k = Cl100k { digits: 1, marks: false, contractions: true, line_ends: true };
const EACH_NUMBER: Stage = run(Lead::None, 1, IS_NUMBER);
const THREE_NUMBERS: Stage = run(Lead::None, 3, IS_NUMBER);
/// `[0-9][0-9][0-9]`
const EXACTLY_THREE: Stage = Stage::Run(Run { lead: Lead::None, least: 3, most: 3, of: ASCII_DIGIT });
const LINES: Stage = run(Lead::None, ANY, LINE_FEED);

const GPT2_RULE: &[Stage] = &[Stage::Gpt2];
const LLAMA3_RULE: &[Stage] = &[Stage::Cl100k(Cl100k { digits: 3, ..QWEN2 })];
const QWEN2_RULE: &[Stage] = &[Stage::Cl100k(QWEN2)];
const DIGITS_RULE: &[Stage] = &[EACH_NUMBER, Stage::Gpt2];
const O200K_RULE: &[Stage] = &[Stage::O200k(O200k { digits: 3, contractions: true })];
const DEEPSEEK3_RULE: &[Stage] = &[THREE_NUMBERS, run(Lead::None, ANY, CJK), Stage::DeepSeek3];

static TABLE: &[Pre] = &[
    // Files without `tokenizer.ggml.pre`, from before there was one.
    Pre {
        names: &["default"],
        stages: &[
            run(Lead::None, ANY, PUNCTUATION_OR_OPERATOR),
            Stage::Gpt2,
            run(Lead::None, ANY, IS_NUMBER),
            EXACTLY_THREE,
        ],
        ..PLAIN
    },
    Pre {
        names: &[
            "gpt-2",
            "phi-2",
            "exaone4",
            "modern-bert",
            "mpt",
            "olmo",
            "jais",
            "gigachat",
            "a.x-4.0",
            "mellum",
        ],
        stages: GPT2_RULE,
        ..PLAIN
    },
    Pre { names: &["trillion", "granite-docling"], stages: GPT2_RULE, clean_spaces: false, ..PLAIN },
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        stages: LLAMA3_RULE,
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Pre { names: &["dbrx", "smaug-bpe"], stages: LLAMA3_RULE, ..PLAIN },
    Pre { names: &["minicpm5"], stages: &[THREE_NUMBERS, LLAMA3_RULE[0]], ignore_merges: true, ..PLAIN },
    Pre { names: &["chatglm-bpe"], stages: LLAMA3_RULE, without_bos: true, ..PLAIN },
    Pre { names: &["glm4", "glm5"], stages: LLAMA3_RULE, without_bos: true, ignore_merges: true, ..PLAIN },
    Pre {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "hunyuan",
            "solar-open",
            "grok-2",
            "bailingmoe",
            "bailingmoe2",
            "llada-moe",
        ],
        stages: QWEN2_RULE,
        clean_spaces: false,
        ..PLAIN
    },
    Pre { names: &["megrez", "stablelm2"], stages: QWEN2_RULE, ..PLAIN },
    Pre {
        names: &["qwen35"],
        stages: &[Stage::Cl100k(Cl100k { marks: true, ..QWEN2 })],
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["ufakzeka"],
        stages: &[Stage::Cl100k(Cl100k { contractions: false, ..QWEN2 })],
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["seed-coder"],
        stages: &[Stage::Cl100k(Cl100k { line_ends: false, ..QWEN2 })],
        clean_spaces: false,
        ..PLAIN
    },
    Pre { names: &["laguna"], stages: &[LINES, QWEN2_RULE[0]], clean_spaces: false, ..PLAIN },
    Pre { names: &["smollm", "command-r"], stages: DIGITS_RULE, clean_spaces: false, ..PLAIN },
    Pre {
        names: &["starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        stages: DIGITS_RULE,
        ..PLAIN
    },
    Pre {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        stages: O200K_RULE,
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["tekken"],
        stages: &[Stage::O200k(O200k { digits: 1, contractions: false })],
        ignore_merges: true,
        add_bos: true,
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["deepseek-llm"],
        stages: &[
            run(Lead::None, 1, LINE_END),
            run(Lead::Space, ANY, DEEPSEEK_LETTER),
            run(Lead::Space, ANY, DEEPSEEK_PUNCTUATION),
            Stage::TrailingSpace,
            run(Lead::None, ANY, DEEPSEEK_CJK),
            run(Lead::None, ANY, IS_NUMBER),
        ],
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["deepseek-coder"],
        stages: &[
            run(Lead::None, 1, LINE_END),
            run(Lead::Space, ANY, IS_LETTER),
            run(Lead::Space, ANY, IS_PUNCTUATION),
            run(Lead::None, ANY, DEEPSEEK_CJK),
            EACH_NUMBER,
        ],
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"],
        stages: DEEPSEEK3_RULE,
        clean_spaces: false,
        ..PLAIN
    },
    Pre {
        names: &["falcon"],
        stages: &[run(Lead::None, ANY, ASCII_PUNCTUATION), Stage::Gpt2, EXACTLY_THREE],
        ..PLAIN
    },
    Pre { names: &["gemma4"], stages: &[LINES], add_bos: true, alphabet: Alphabet::Characters, ..PLAIN },
];

impl Pre {
    /// The row of a name.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.own_name(name).is_some())
    }

    /// The row's name that is equal to `name`.
    pub fn own_name(&self, name: &[u8]) -> Option<&'static str> {
        self.names.iter().find(|known| known.as_bytes() == name).copied()
    }

    /// Every row.
    pub fn all() -> &'static [Self] {
        TABLE
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use super::*;

    #[test]
    fn every_name_has_one_row() {
        let mut names: alloc::vec::Vec<_> = TABLE.iter().flat_map(|row| row.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(Pre::named(b"qwen2").is_some_and(|row| !row.clean_spaces && !row.add_bos));
        assert!(Pre::named(b"").is_none());
    }

    #[test]
    fn deepseek_letters_are_searchable() {
        assert!(DEEPSEEK_LETTERS.windows(2).all(|pair| pair[0].1 < pair[1].0));
        let at =
            |char: char| DEEPSEEK_LETTER(Char::at(alloc::string::String::from(char).as_bytes(), 0).unwrap());
        assert!(at('A') && at('z') && at('Ж') && at('\u{1e943}'));
        assert!(!at('1') && !at('中') && !at('@') && !at('\u{1d400}'));
    }
}
