//! Keywords of JSON schemas: those with schemas in them, and those that allow every value. The parser has no support for
//! some of the latter, and clients send them: a record of zod has `propertyNames`.

use serde_json::{Map, Value};

/// Keywords with a schema as their value.
pub(super) const SCHEMAS: [&str; 10] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
];

/// Keywords with a list of schemas.
pub(super) const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords with schemas by name.
pub(super) const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords that say something about a schema without limiting its values.
pub(crate) const ANNOTATIONS: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Removes the keywords that allow every value, here and in all parts. Names of properties are no keywords.
pub(super) fn remove_idle(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.retain(|keyword, value| !allows_all(keyword, value));
    for (keyword, value) in fields {
        if SCHEMAS.contains(&keyword.as_str()) {
            remove_idle(value);
        } else if LISTS.contains(&keyword.as_str()) {
            value.as_array_mut().into_iter().flatten().for_each(remove_idle);
        } else if MAPS.contains(&keyword.as_str()) {
            value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(remove_idle);
        }
    }
}

fn allows_all(keyword: &str, value: &Value) -> bool {
    match keyword {
        "uniqueItems" => *value == Value::Bool(false),
        "minItems" | "minProperties" | "minLength" => value.as_u64() == Some(0),
        "patternProperties" | "dependentSchemas" | "dependentRequired" => {
            value.as_object().is_some_and(Map::is_empty)
        }
        "propertyNames" => is_any_text(value),
        "not" => *value == Value::Bool(false),
        _ => false,
    }
}

/// True for a schema that every text fits.
fn is_any_text(schema: &Value) -> bool {
    match schema {
        Value::Bool(any) => *any,
        Value::Object(fields) => fields.iter().all(|(keyword, value)| {
            ANNOTATIONS.contains(&keyword.as_str())
                || keyword == "type" && value == "string"
                || allows_all(keyword, value)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_allows_everything_is_removed() {
        let mut schema = json!({
            "type": "object",
            "propertyNames": { "type": "string", "description": "a name" },
            "minProperties": 0,
            "properties": {
                "uniqueItems": { "type": "array", "uniqueItems": false, "minItems": 0, "items": { "not": false } },
                "kept": { "type": "array", "uniqueItems": true, "minItems": 1, "default": { "uniqueItems": false } },
            },
            "additionalProperties": { "propertyNames": { "pattern": "^a" } },
            "anyOf": [{ "patternProperties": {} }, { "enum": [{ "uniqueItems": false }] }],
        });
        remove_idle(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "uniqueItems": { "type": "array", "items": {} },
                "kept": { "type": "array", "uniqueItems": true, "minItems": 1, "default": { "uniqueItems": false } },
            },
            "additionalProperties": { "propertyNames": { "pattern": "^a" } },
            "anyOf": [{}, { "enum": [{ "uniqueItems": false }] }],
        });
        assert_eq!(schema, expected);
    }
}
