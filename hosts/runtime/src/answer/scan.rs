//! Finding marks in text that comes in pieces.

/// Where the first of `marks` begins in `text`, and which it is; the longer one of two at the same place.
pub(super) fn first<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let found = marks.iter().filter_map(|&mark| Some((text.find(mark)?, mark)));
    found.min_by_key(|&(at, mark)| (at, usize::MAX - mark.len()))
}

/// Bytes at the end of `text` that may become one of `marks` with more text.
pub(super) fn pending(text: &str, marks: &[&str]) -> usize {
    let overlap = |mark: &str| {
        let most = text.len().min(mark.len().saturating_sub(1));
        (1..=most).rev().find(|&len| text.as_bytes().ends_with(&mark.as_bytes()[..len])).unwrap_or(0)
    };
    // an overlap starts where the mark does, on a character
    marks.iter().map(|mark| overlap(mark)).max().unwrap_or(0)
}

/// Bytes of white space at the end.
pub(super) fn trailing_blank(text: &str) -> usize {
    text.len() - text.trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_and_awaited() {
        assert_eq!(first("a<b><bc>", &["<bc>", "<b>"]), Some((1, "<b>")));
        assert_eq!(first("ab", &["a", "ab"]), Some((0, "ab")));
        assert_eq!(first("ab", &[]), None);
        assert_eq!(pending("text </thi", &["</think>", "<tool_call>"]), 5);
        assert_eq!(pending("text", &["</think>"]), 0);
        assert_eq!(pending("é<｜", &["<｜tool"]), 4);
        assert_eq!(trailing_blank("a \n"), 2);
    }
}
