//! An upper estimate of the memory that a JSON text takes once it is parsed, made before it is parsed.
//!
//! `[[0],[0]]` takes a hundred times its own size: every value is a [`Value`] of dozens of bytes, and lists and objects
//! have room for four of them from the first on.

use serde_json::Value;

/// Values of a list or an object that has one: `Vec` begins with room for four.
const FIRST: usize = 4;

/// Bytes of an entry of an object: the key, the value and their hash.
const ENTRY: usize = size_of::<(u64, String, Value)>();

/// Bytes of an object's table for its first entries.
const TABLE: usize = 64;

/// Bytes of a table of an object for each further entry.
const TABLE_ENTRY: usize = 16;

/// Room for each further value: it doubles when it is full, and is copied from the old one.
const GROWTH: usize = 3;

/// Bytes that the allocator adds to a text, at both of its quotation marks.
const QUOTE: usize = 16;

/// Nested lists and objects that are told apart; serde_json refuses deeper ones.
const DEEPEST: u32 = 128;

/// Bytes that the values of a JSON text take, besides their texts. Of text that is not JSON, any number.
pub(crate) fn structure(text: &[u8]) -> usize {
    let (mut bytes, mut depth, mut objects) = (size_of::<Value>(), 0_u32, 0_u128);
    let (mut within, mut escaped, mut opened) = (false, false, false);
    for &byte in text {
        if within {
            within = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        if opened && !byte.is_ascii_whitespace() {
            opened = false;
            bytes += match byte {
                // without a value it takes nothing
                b']' | b'}' => 0,
                _ if objects & 1 == 1 => FIRST * ENTRY + TABLE,
                _ => FIRST * size_of::<Value>(),
            };
        }
        match byte {
            b'"' => {
                within = true;
                bytes += 2 * QUOTE;
            }
            b'[' | b'{' => {
                opened = true;
                objects = objects << 1 | u128::from(byte == b'{');
                depth += 1;
                if depth > DEEPEST {
                    break;
                }
            }
            b']' | b'}' => {
                objects >>= 1;
                depth = depth.saturating_sub(1);
            }
            b',' if objects & 1 == 1 => bytes += GROWTH * (ENTRY + TABLE_ENTRY),
            b',' => bytes += GROWTH * size_of::<Value>(),
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes that were allocated at once while a text was parsed.
    fn peak(text: &str) -> usize {
        let info = allocation_counter::measure(|| drop(serde_json::from_str::<Value>(text)));
        usize::try_from(info.bytes_max).unwrap_or(usize::MAX)
    }

    #[test]
    fn parsing_never_takes_more_than_the_estimate() {
        let list = |item: &str, count: usize| format!("{{\"x\":[{}]}}", vec![item; count].join(","));
        let keys = |count: usize| {
            let fields: Vec<String> = (0..count).map(|key| format!("\"{key}\":0")).collect();
            format!("{{{}}}", fields.join(","))
        };
        let nested = |open: &str, close: &str| format!("{}0{}", open.repeat(100), close.repeat(100));
        let mut texts = vec![keys(1), keys(3), keys(4), keys(5000), nested("[", "]"), nested("{\"\":", "}")];
        for item in [
            "0",
            "[0]",
            "[[0]]",
            "[]",
            "{}",
            "{\"\":0}",
            "\"\"",
            "\"a\"",
            "{\"a\":[{\"b\":1}]}",
            "1e9",
            "null",
        ] {
            texts.extend([1, 2, 5, 1000, 20_000].map(|count| list(item, count)));
        }
        for text in texts {
            let (peak, estimate) = (peak(&text), structure(text.as_bytes()) + text.len());
            let start = &text[..text.len().min(40)];
            assert!(peak <= estimate, "{start}... of {}: {peak} > {estimate}", text.len());
            // no more than is needed to be safe, so that few are refused that would fit
            assert!(estimate <= 6 * peak + 1024, "{start}... of {}: {estimate} for {peak}", text.len());
        }
    }

    #[test]
    fn structure_within_texts_costs_nothing() {
        let plain = structure(b"[\"abc\"]");
        assert_eq!(structure(br#"["[{,\"[,\\"]"#), plain);
        assert!(structure(br#"["\\",[]]"#) > plain);
    }
}
