//! The end of a value, and the end of a call, in the notations that write values between tags.
//!
//! A value is any text. It ends at the first closing mark that is followed, after white space, by the mark of the next
//! parameter, by a mark that ends the call, or by the end of the answer. A closing mark before anything else is a part
//! of the value, and so is every other mark in it. The grammar keeps to this: its values end at the first closing mark
//! with a line end behind it, and one of these marks must follow.
//!
//! What stays ambiguous: a text that itself has a closing mark before one of these marks (an example of the notation) ends
//! there. A value whose closing mark is missing runs on to the closing mark of the next parameter; if there is none, it
//! ends at the first of these marks.

use super::arguments::OpenObject;

/// The marks of one notation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tags {
    /// The mark before a value, or before its key and the value.
    open: &'static str,
    /// The mark after a value.
    pub(super) close: &'static str,
    /// The marks after a closed value.
    followers: &'static [&'static str],
}

/// `<parameter=K>V</parameter>`, in a function.
pub(super) const FUNCTIONS: Tags = Tags {
    open: "<parameter=",
    close: "</parameter>",
    followers: &["<parameter=", "</function>", "</tool_call>"],
};

/// `<arg_key>K</arg_key><arg_value>V</arg_value>`.
pub(super) const PAIRS: Tags =
    Tags { open: "<arg_value>", close: "</arg_value>", followers: &["<arg_key>", "</tool_call>"] };

impl Tags {
    /// Bytes of the value at the beginning of `text`; `None` if its end is not there or, in a text that is not `whole`, not
    /// certain yet.
    fn closed(self, text: &str, whole: bool) -> Option<usize> {
        for (at, mark) in text.match_indices(self.close) {
            let behind = text[at + mark.len()..].trim_start();
            if self.followers.iter().any(|mark| behind.starts_with(mark)) {
                return Some(at);
            }
            if self.followers.iter().any(|mark| mark.starts_with(behind)) {
                return whole.then_some(at);
            }
        }
        None
    }

    /// The value at the beginning of a whole text, and the text after it and its closing mark.
    pub(super) fn value(self, text: &str) -> (&str, &str) {
        if let Some(end) = self.closed(text, true) {
            return (&text[..end], &text[end + self.close.len()..]);
        }
        let ends = self.followers.iter().chain([&self.close]).filter_map(|mark| text.find(mark));
        let end = ends.min().unwrap_or(text.len());
        (&text[..end], text[end..].strip_prefix(self.close).unwrap_or(&text[end..]))
    }

    /// Position of the mark `close` that ends the call in the text after its opening mark; marks in values do not count.
    /// `None` if it is not there yet.
    pub(super) fn end_of_call(self, text: &str, close: &str) -> Option<usize> {
        let mut from = object_in_call(text)?;
        loop {
            let end = text[from..].find(close)?;
            match text[from..].find(self.open).filter(|&open| open < end) {
                None => return Some(from + end),
                Some(open) => {
                    let value = from + open + self.open.len();
                    from = value + self.closed(&text[value..], false)? + self.close.len();
                }
            }
        }
    }
}

/// Bytes up to the end of the object that stands instead of parameters; 0 if there is none, and `None` if it is open.
fn object_in_call(text: &str) -> Option<usize> {
    let mut begin = text.len() - text.trim_start().len();
    if !text[begin..].starts_with('{') {
        let name = text.find('>').filter(|&end| !text[..end].contains("</"));
        let Some(name) = name else { return Some(0) };
        begin = text.len() - text[name + 1..].trim_start().len();
    }
    if text[begin..].starts_with('{') { object(&text[begin..]).map(|end| begin + end) } else { Some(0) }
}

/// Bytes of the object at the beginning of `text`; `None` if it is not closed.
pub(super) fn object(text: &str) -> Option<usize> {
    OpenObject::default().read(text).1
}
