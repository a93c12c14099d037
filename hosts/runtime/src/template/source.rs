//! Preparation of a template's source: tags of `transformers` alone become tags of Jinja.

/// Replaces `{% generation %}` and `{% endgeneration %}`, which mark the assistant's tokens for training, by an `if` that is
/// always true, so that white space around them is handled as in `transformers`.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%").into_iter().chain(rest.find("{{")).chain(rest.find("{#")).min() {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let (replacement, len) = replaced(tag).unwrap_or_else(|| {
            let len = tag_len(tag);
            (tag[..len].to_owned(), len)
        });
        out.push_str(&replacement);
        rest = &tag[len..];
    }
    out + rest
}

/// The length in bytes of the tag, expression or comment at the beginning of `tag`. Its end is not searched in string
/// literals.
fn tag_len(tag: &str) -> usize {
    let (open, inner) = tag.split_at(2);
    if open == "{#" {
        return inner.find("#}").map_or(tag.len(), |at| at + 4);
    }
    let close = if open == "{%" { "%}" } else { "}}" };
    let mut quote = None;
    let mut depth = 0_usize;
    let mut characters = inner.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if depth == 0 && inner[at..].starts_with(close) => return at + 4,
            (None, '{') => depth += 1,
            (None, '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    tag.len()
}

/// The replacement of the tag at the beginning of `tag`, and the tag's length, if it is one of the two.
fn replaced(tag: &str) -> Option<(String, usize)> {
    let end = tag.find("%}")?;
    let inner = &tag[2..end];
    let (open, inner) = control(inner, str::strip_prefix);
    let (close, word) = control(inner, str::strip_suffix);
    let word = match word.trim() {
        "generation" => "if true",
        "endgeneration" => "endif",
        _ => return None,
    };
    Some((format!("{{%{open} {word} {close}%}}"), end + 2))
}

/// Splits the white-space control off one end of a tag.
fn control<'t>(inner: &'t str, strip: fn(&'t str, char) -> Option<&'t str>) -> (&'static str, &'t str) {
    for (sign, text) in [('-', "-"), ('+', "+")] {
        if let Some(rest) = strip(inner, sign) {
            return (text, rest);
        }
    }
    ("", inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_keep_their_white_space_control() {
        let check = |source, expected: &str| assert_eq!(without_generation_tags(source), expected);
        check("a{% generation %}b{%- endgeneration -%}c", "a{% if true %}b{%- endif -%}c");
        check("{%+generation+%}{% if x %}", "{%+ if true +%}{% if x %}");
        check("{% generation_config %} {% é %} {%", "{% generation_config %} {% é %} {%");
    }

    #[test]
    fn string_literals_and_comments_are_kept() {
        for source in [
            "{{ '{% generation %}' }}",
            "{{ \"}}{% generation %}\" }}",
            r"{% if x == '\'{% generation %}' %}{% endif %}",
            "{# {% generation %} #}",
            "{{ {'a': {'b': '{% endgeneration %}'}} }}",
        ] {
            assert_eq!(without_generation_tags(source), source);
            let both = format!("{source}{{% generation %}}");
            assert_eq!(without_generation_tags(&both), format!("{source}{{% if true %}}"));
        }
    }
}
