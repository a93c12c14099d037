//! Streaming of the arguments of a JSON call: the head that names the tool, then the object, character by character, until
//! it is closed.
//!
//! Not here: reading whole calls (`calls`).

use super::strings::Strings;

/// State of a partly read object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenObject {
    /// Number of open braces and brackets.
    depth: usize,
    strings: Strings,
}

/// Result of reading the head of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The text may become a head.
    Partial,
    /// The text is not a head, or the call must be read as a whole.
    Other,
    /// It names this tool, and the object of its arguments begins at this byte.
    Call(String, usize),
}

/// Reads `{"name": N, "arguments": ` before an object. A call whose name has escapes is read as a whole.
pub(super) fn head(text: &str) -> Head {
    let mut rest = text;
    let mut name = None;
    let parts = ["{", "\"name\"", ":", "\"", "", "\"", ",", "\"", "", "\"", ":"];
    for (number, part) in parts.into_iter().enumerate() {
        if part.is_empty() {
            let Some(end) = rest.find(['"', '\\', '\n']) else { return Head::Partial };
            let word = &rest[..end];
            match number {
                4 => name = Some(word.to_owned()),
                _ if word == "arguments" || word == "parameters" => {}
                _ => return Head::Other,
            }
            rest = &rest[end..];
            continue;
        }
        // a closing quote directly follows its word
        if !matches!(number, 5 | 9) {
            rest = rest.trim_start();
        }
        match rest.strip_prefix(part) {
            Some(behind) => rest = behind,
            None if part.starts_with(rest) => return Head::Partial,
            None => return Head::Other,
        }
    }
    rest = rest.trim_start();
    match (name, rest.chars().next()) {
        (_, None) => Head::Partial,
        (Some(name), Some('{')) => Head::Call(name, text.len() - rest.len()),
        _ => Head::Other,
    }
}

impl OpenObject {
    /// Reads more of the object. Returns its text without white space between its parts and with its string literals
    /// repaired, and the number of bytes up to its end if it is closed.
    pub(super) fn read(&mut self, text: &str) -> (String, Option<usize>) {
        let mut shown = String::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            if self.strings.inside() {
                self.strings.push(character, &mut shown);
                continue;
            }
            match character {
                ' ' | '\n' | '\r' | '\t' => continue,
                '{' | '[' => self.depth += 1,
                '}' | ']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.strings.push(character, &mut shown);
            if self.depth == 0 {
                return (shown, Some(at + character.len_utf8()));
            }
        }
        (shown, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_far_as_they_go() {
        let text = "\n{\"name\": \"a b\", \"arguments\": {\"c\"";
        let begin = text.rfind('{').unwrap();
        for end in 0..=begin {
            assert_eq!(head(&text[..end]), Head::Partial, "{end}");
        }
        assert_eq!(head(text), Head::Call("a b".into(), begin));
        let others = [
            "[",
            "{\"arguments\"",
            "{\"name\": 3",
            "{\"name\": \"a\\n",
            "{\"name\": \"a\", \"id\": ",
            "{\"name\": \"a\", \"arguments\": \"",
            "{\"name\": \"a\"}",
        ];
        for other in others {
            assert_eq!(head(other), Head::Other, "{other}");
        }
    }

    #[test]
    fn objects_end_where_they_are_closed() {
        let text = "{ \"a\" : \"}\\\"{ \", \"b\": [ {}, 1 ] }  }";
        let mut whole = OpenObject::default();
        let (shown, end) = whole.read(text);
        assert_eq!(shown, "{\"a\":\"}\\\"{ \",\"b\":[{},1]}");
        assert_eq!(end, Some(text.len() - 3));
        let (mut piecewise, mut shown_so_far, mut ended) = (OpenObject::default(), String::new(), false);
        for character in text.chars() {
            if !ended {
                let (shown, end) = piecewise.read(&character.to_string());
                shown_so_far.push_str(&shown);
                ended = end.is_some();
            }
        }
        assert_eq!(shown_so_far, shown);
    }
}
