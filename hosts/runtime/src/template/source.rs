//! Preparation of a template's source: tags of `transformers` alone become tags of Jinja.

/// Replaces `{% generation %}` and `{% endgeneration %}`, which mark the assistant's tokens for training, by an `if` that is
/// always true, so that white space around them is handled as in `transformers`.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some((replacement, len)) = replaced(tag) else {
            out.push_str("{%");
            rest = &tag[2..];
            continue;
        };
        out.push_str(&replacement);
        rest = &tag[len..];
    }
    out + rest
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
}
