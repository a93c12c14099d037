//! Search for marks in streamed text.

/// Position of the first of `marks` in `text`, and the mark; the longest of those at the same position.
pub(super) fn first<'m>(text: &str, marks: &[&'m str]) -> Option<(usize, &'m str)> {
    let found = marks.iter().filter_map(|&mark| Some((text.find(mark)?, mark)));
    found.min_by_key(|&(at, mark)| (at, usize::MAX - mark.len()))
}

/// Number of bytes at the end of `text` that may become one of `marks` with more text.
pub(super) fn pending(text: &str, marks: &[&str]) -> usize {
    let overlap = |mark: &str| {
        let most = text.len().min(mark.len().saturating_sub(1));
        (1..=most).rev().find(|&len| text.as_bytes().ends_with(&mark.as_bytes()[..len])).unwrap_or(0)
    };
    // an overlap begins where the mark begins, at a character boundary
    marks.iter().map(|mark| overlap(mark)).max().unwrap_or(0)
}

/// Number of bytes of trailing white space.
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
