//! Answers of every family, whole and split: the parts are the same for every split of the text.

use doorbell_runtime::answer::{AnswerParser, Begin, CallStyle, Delta, Style, Tools};
use doorbell_runtime::template::{ChatInput, ChatTemplate, Moment, SpecialTokens};
use serde_json::{Map, Value, json};

fn tools() -> Tools {
    let weather = json!({ "type": "object", "properties": {
        "city": { "type": "string" }, "days": { "type": "integer" }, "tags": { "type": "array" },
        "unit": { "type": ["string", "null"] } } });
    Tools::new(&[
        json!({ "type": "function", "function": { "name": "weather", "parameters": weather } }),
        json!({ "type": "function", "function": { "name": "now" } }),
    ])
}

/// The parts; neighbors of the same kind are joined.
fn parts(style: Style, begin: Begin, pieces: &[&str]) -> Vec<Delta> {
    let mut parser = AnswerParser::new(style, tools(), begin);
    let mut out = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut out);
    }
    parser.finish(&mut out);
    let mut joined: Vec<Delta> = Vec::new();
    for delta in out {
        match (joined.last_mut(), &delta) {
            (Some(Delta::Text(text)), Delta::Text(more)) => text.push_str(more),
            (Some(Delta::Reasoning(text)), Delta::Reasoning(more)) => text.push_str(more),
            (Some(Delta::Arguments { index, text }), Delta::Arguments { index: same, text: more })
                if index == same =>
            {
                text.push_str(more)
            }
            _ => joined.push(delta),
        }
    }
    joined
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn reasoning(text: &str) -> Delta {
    Delta::Reasoning(text.into())
}

fn call(index: usize, name: &str, arguments: &Value) -> [Delta; 2] {
    [Delta::Call { index, name: name.into() }, Delta::Arguments { index, text: arguments.to_string() }]
}

#[track_caller]
fn check(template: &str, thinking: bool, answer: &str, expected: &[Delta]) {
    check_from(template, if thinking { Begin::Reasoning } else { Begin::Turn }, answer, expected);
}

#[track_caller]
fn check_from(template: &str, begin: Begin, answer: &str, expected: &[Delta]) {
    let style = Style::of_template(template);
    assert_eq!(parts(style, begin, &[answer]), expected, "whole: {answer}");
    same_in_pieces(style, begin, answer);
}

/// Checks that a text has the same parts when it is split in two at every position, letter by letter, and randomly.
#[track_caller]
fn same_in_pieces(style: Style, begin: Begin, answer: &str) {
    let expected = parts(style, begin, &[answer]);
    let starts: Vec<usize> = answer.char_indices().map(|(at, _)| at).collect();
    let cut_at = |cuts: &[usize]| {
        let mut cuts = cuts.to_vec();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        let pieces: Vec<&str> = cuts.windows(2).map(|ends| &answer[ends[0]..ends[1]]).collect();
        assert_eq!(parts(style, begin, &pieces), expected, "{style:?}, {begin:?}: {pieces:?}");
    };
    cut_at(&starts);
    for &at in &starts {
        cut_at(&[at]);
    }
    let mut random = Random(answer.len() as u64);
    for _ in 0..8 {
        let cuts: Vec<usize> = starts.iter().copied().filter(|_| random.below(4) == 0).collect();
        cut_at(&cuts);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Texts that the answers of all families consist of, complete and incomplete, in usual and unusual order.
const FRAGMENTS: [&str; 70] = [
    "<think>",
    "</think>",
    "<think>\n",
    "\n</think>\n\n",
    "[THINK]",
    "[/THINK]",
    "<tool_call>",
    "</tool_call>",
    "<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
    "{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}",
    "{\"name\": \"weather\", \"parameters\": {\"city\": \"}\"}}",
    "{\"name\": \"",
    "\"arguments\": ",
    "{",
    "}",
    "\"",
    "\\",
    "[",
    "]",
    "<function=weather>",
    "<function=",
    "</function>",
    "<parameter=city>\nRom\n</parameter>",
    "<parameter=",
    "weather",
    "<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>",
    "<arg_key>",
    "</arg_value>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[ARGS]{}",
    "[{\"name\": \"now\"}]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|python_tag|>",
    "<|channel|>",
    "<|message|>",
    "<|start|>assistant",
    "<|end|>",
    "<|channel|>analysis<|message|>",
    " to=functions.now<|channel|>commentary json<|message|>{}",
    "<|call|>",
    "<|return|>",
    "\n",
    " ",
    "\n\n",
    "a < b",
    "text 北京 ",
    "function<｜tool▁sep｜>now\n```json\n{}\n```",
    "<function=now>{}</function>",
    "<",
    "{\"name\": \"weather\", \"arguments\": {\"city\": \"a\n\t\\d \\ud83d\"}}",
    "{\"city\": \"\\d\\ud83d\\ude00\\u00\n\"}",
    "\\ud83d",
    "\\u00",
    " to=now<|channel|>commentary<|message|>{\"a\": \"\\d\n\"}",
    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>a </arg_value> b</arg_value>\n</tool_call>",
    "<function=weather>\n<parameter=city>\na </parameter> </function> b\n</parameter>\n</function>",
    "</parameter>\n",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_call>call:weather{city:<|\"|>Köln }<tool_call|><|\"|>,days:3}<tool_call|>",
    "call:now{}",
    "call:weather{tags:[1,{a:",
    "<|\"|>",
    "<|channel>",
    "<|channel>thought",
    "<|channel>thought\n",
    "<channel|>",
];

/// A template of every style, with and without reasoning.
const TEMPLATES: [&str; 17] = [
    "",
    "</think>",
    "<tool_call>",
    "<tool_call> </think>",
    "<function=",
    "<function= </think>",
    "<arg_key>",
    "<arg_key> </think>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [/THINK]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁begin｜> </think>",
    "<|channel|>",
    "<|tool_call>",
    "<channel|>",
    "<|tool_call> <channel|>",
];

#[test]
fn any_split_of_a_text_gives_the_same_answer() {
    let mut random = Random(1);
    for round in 0..3_400 {
        let template = TEMPLATES[round % TEMPLATES.len()];
        let answer: String =
            (0..=random.below(9)).map(|_| FRAGMENTS[random.below(FRAGMENTS.len())]).collect();
        let style = Style::of_template(template);
        let begin = match random.below(4) {
            0 if style.can_think() => Begin::Reasoning,
            1 => Begin::Text,
            _ => Begin::Turn,
        };
        same_in_pieces(style, begin, &answer);
    }
}

const QWEN3: &str = "<tool_call> <think></think>";

#[test]
fn hermes_calls_and_reasoning() {
    let [a, b] = call(0, "weather", &json!({"city": "Köln"}));
    let answer = "<think>\nLet me see.\n\nYes.\n</think>\n\nI ask.\n<tool_call>\n\
                  {\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";
    check(QWEN3, false, answer, &[reasoning("Let me see.\n\nYes."), text("I ask."), a, b]);
    let [a, b] = call(0, "now", &json!({}));
    let [c, d] = call(1, "weather", &json!({"city": "Rom"}));
    let two = "<tool_call>\n{\"name\": \"now\"}\n</tool_call>\n<tool_call>\n\
               {\"name\": \"weather\", \"arguments\": \"{\\\"city\\\":\\\"Rom\\\"}\"}\n</tool_call>\n";
    check(QWEN3, false, two, &[a, b, c, d]);
}

#[test]
fn a_prompt_may_end_in_the_middle_of_reasoning() {
    check(QWEN3, true, "hm\n</think>\n\nYes.", &[reasoning("hm"), text("Yes.")]);
    check(QWEN3, true, "cut off", &[reasoning("cut off")]);
    check(QWEN3, false, "<think>\n\n</think>\n\nNo.", &[text("No.")]);
}

#[test]
fn a_call_ends_unclosed_reasoning() {
    let [a, b] = call(0, "now", &json!({}));
    check(
        QWEN3,
        true,
        "I must ask\n<tool_call>{\"name\":\"now\"}</tool_call>",
        &[reasoning("I must ask"), a, b],
    );
}

#[test]
fn text_that_is_not_a_call_stays_text() {
    for answer in [
        "<tool_call>\nnot JSON\n</tool_call> rest",
        "<tool_call>{\"name\": \"now\"",
        "a < b and <tool is no mark\n",
        "white space at the end \n\n",
    ] {
        check(QWEN3, false, answer, &[text(answer)]);
    }
}

#[test]
fn parameters_in_tags_have_the_types_of_the_schema() {
    let template = "<tool_call>\n<function=";
    let arguments = json!({"city": "New\nYork 42", "days": 3, "tags": ["a"], "unit": null});
    let [a, b] = call(0, "weather", &arguments);
    let answer = "<tool_call>\n<function=weather>\n<parameter=city>\nNew\nYork 42\n</parameter>\n<parameter=days>\n3\n\
                  </parameter>\n<parameter=tags>\n[\"a\"]\n</parameter>\n<parameter=unit>\nnull\n</parameter>\n\
                  </function>\n</tool_call>";
    check(template, false, answer, &[a.clone(), b.clone()]);
    // the first mark may be missing
    check(template, false, &answer["<tool_call>\n".len()..], &[a, b]);
    check(template, false, "see <function=unknown></function>", &[text("see <function=unknown></function>")]);
}

#[test]
fn an_argument_that_is_neither_json_nor_literal_is_passed_unchanged() {
    let [a, b] = call(0, "weather", &json!({"tags": "{'a': 1}", "days": "three"}));
    let answer = "<tool_call>\n<function=weather>\n<parameter=tags>\n{'a': 1}\n</parameter>\n<parameter=days>\nthree\n\
                  </parameter>\n</function>\n</tool_call>";
    check("<function=", false, answer, &[a, b]);
}

#[test]
fn glm_pairs() {
    let [a, b] = call(0, "weather", &json!({"city": "Bonn", "days": 2}));
    let answer = "\n<think>so</think>\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>\n\
                  <arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>";
    check("<arg_key> </think>", false, answer, &[reasoning("so"), a, b]);
}

#[test]
fn llama_calls_are_the_whole_message() {
    let [a, b] = call(0, "weather", &json!({"city": "Ulm"}));
    let answer = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Ulm\"}}";
    check("<|python_tag|>", false, answer, &[a.clone(), b.clone()]);
    check("<|python_tag|>", false, &format!("<|python_tag|>{answer}"), &[a, b]);
    let other = "{\"name\": \"Bob\", \"age\": 3}";
    check("<|python_tag|>", false, other, &[text(other)]);
}

#[test]
fn mistral_lists_and_arguments() {
    let [a, b] = call(0, "weather", &json!({"city": "Paris"}));
    let list =
        "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}, \"id\": \"abcdefghi\"}]";
    check("[TOOL_CALLS]", false, list, &[a.clone(), b.clone()]);
    let [c, d] = call(1, "now", &json!({}));
    let newer = "[TOOL_CALLS]weather[ARGS]{\"city\":\"Paris\"}[TOOL_CALLS]now[ARGS]{}";
    check("[TOOL_CALLS]", false, newer, &[a, b, c, d]);
    check("[TOOL_CALLS] [THINK][/THINK]", false, "[THINK]so[/THINK]Yes.", &[reasoning("so"), text("Yes.")]);
}

#[test]
fn deepseek_calls() {
    let [a, b] = call(0, "weather", &json!({"city": "Lyon"}));
    let answer = "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\":\"Lyon\"}\
                  <｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    check("<｜tool▁calls▁begin｜>", false, answer, &[text("Ok."), a, b]);
}

#[test]
fn harmony_channels_and_recipients() {
    let template = "<|channel|>";
    let answer = "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>";
    check(template, false, answer, &[reasoning("Think."), text("Hi")]);
    let [a, b] = call(0, "weather", &json!({"city": "Rom"}));
    for header in [
        "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>",
        " to=functions.weather<|channel|>commentary json<|message|>",
        "<|channel|>analysis to=functions.weather<|message|>",
    ] {
        check(template, false, &format!("{header}{{\"city\":\"Rom\"}}"), &[a.clone(), b.clone()]);
    }
    check(template, false, "<|channel|>commentary", &[]);
}

#[test]
fn without_tools_nothing_is_a_call() {
    let mut parser = AnswerParser::new(Style::of_template(QWEN3), Tools::default(), Begin::Turn);
    let mut out = Vec::new();
    parser.push("<tool_call>{\"name\":\"now\"}</tool_call> ", &mut out);
    parser.finish(&mut out);
    assert_eq!(out, [text("<tool_call>{\"name\":\"now\"}</tool_call> ")]);
}

#[test]
fn arguments_are_streamed_before_the_call_is_complete() {
    let style = Style::of_template(QWEN3);
    let tools = [json!({"function": {"name": "weather", "parameters": {}}})];
    let mut parser = AnswerParser::new(style, Tools::new(&tools), Begin::Turn);
    let mut out = Vec::new();
    parser.push("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"K", &mut out);
    assert_eq!(
        out,
        [
            Delta::Call { index: 0, name: "weather".into() },
            Delta::Arguments { index: 0, text: "{\"city\":\"K".into() }
        ]
    );
    out.clear();
    parser.push("öln </tool_call>\"", &mut out);
    assert_eq!(out, [Delta::Arguments { index: 0, text: "öln </tool_call>\"".into() }]);
    out.clear();
    parser.push("}}{\"name\": \"weather\"}\n</tool_call> end", &mut out);
    parser.finish(&mut out);
    let [a, b] = call(1, "weather", &json!({}));
    assert_eq!(out, [Delta::Arguments { index: 0, text: "}".into() }, a, b, text(" end")]);
}

#[test]
fn an_incomplete_call_is_text() {
    let functions = "<tool_call>\n<function=weather>\n<parameter=city>\nNew York\n</parameter>\n</function>";
    for (template, answer) in [
        ("<function=", &functions[..functions.find(" York").unwrap()]),
        ("<function=", &functions[..functions.find("\n<parameter").unwrap()]),
        ("<function=", "<tool_call>\n<function=wea"),
        ("<function=", "<function=weather>\n<parameter=city>\nNew\n"),
        ("<function=", "<function=weather>{\"city\": \"Ne"),
        ("<arg_key>", "<tool_call>weather"),
        ("<arg_key>", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>New"),
        ("[TOOL_CALLS]", "[TOOL_CALLS]weather[ARGS]{\"city\": \"Ne"),
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city"),
    ] {
        check(template, false, answer, &[text(answer)]);
    }
    // a complete call may lack the closing marks
    let [a, b] = call(0, "weather", &json!({"city": "New York"}));
    for answer in [functions, functions.trim_end_matches("\n</function>")] {
        check("<function=", false, answer, &[a.clone(), b.clone()]);
    }
    let pairs = "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>New York</arg_value>\n";
    check("<arg_key>", false, pairs, &[a, b]);
}

#[test]
fn a_function_may_have_an_object_instead_of_parameters() {
    let [a, b] = call(0, "weather", &json!({"city": "Bonn"}));
    for answer in [
        "<function=weather>{\"city\": \"Bonn\"}</function>",
        "<tool_call>\n<function=weather>\n{\"city\": \"Bonn\"}\n</function>\n</tool_call>",
    ] {
        check("<function=", false, answer, &[a.clone(), b.clone()]);
    }
}

#[test]
fn parameters_in_tags_are_texts_where_one_of_the_alternatives_is() {
    let schema = json!({ "type": "object", "properties": {
        "a": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        "b": { "enum": ["1", "2"] }, "c": { "const": "3" }, "d": { "anyOf": [{ "type": "integer" }] } } });
    let tools = Tools::new(&[json!({ "function": { "name": "f", "parameters": schema } })]);
    let value = |key: &str, text: &str| {
        let mut parser = AnswerParser::new(Style::of_template("<function="), tools.clone(), Begin::Turn);
        let mut out = Vec::new();
        let answer = format!("<function=f>\n<parameter={key}>\n{text}\n</parameter>\n</function>");
        parser.push(&answer, &mut out);
        parser.finish(&mut out);
        let Some(Delta::Arguments { text, .. }) = out.pop() else { panic!("no call in {answer}") };
        let arguments: Value = serde_json::from_str(&text).expect("arguments are JSON");
        arguments[key].clone()
    };
    assert_eq!((value("a", "42"), value("a", "null")), (json!("42"), Value::Null));
    assert_eq!((value("b", "1"), value("c", "3"), value("d", "4")), (json!("1"), json!("3"), json!(4)));
}

#[test]
fn deepseek_r1_quotes_arguments() {
    let [a, b] = call(0, "weather", &json!({"city": "Lyon"}));
    let answer = "<think>so</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n                  ```json\n{\"city\":\"Lyon\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    check("<｜tool▁calls▁begin｜> </think>", false, answer, &[reasoning("so"), a, b]);
}

#[test]
fn a_mention_of_a_closing_mark_does_not_end_reasoning() {
    let answer = "they write </tool_call> there\n</think>\n\nYes.";
    check("<function= </think>", true, answer, &[reasoning("they write </tool_call> there"), text("Yes.")]);
}

#[test]
fn unknown_tools_between_ambiguous_marks_are_text() {
    let answer = "write <tool_call> and </tool_call>";
    check("<arg_key>", false, answer, &[text(answer)]);
}

#[test]
fn an_answer_continues_the_part_that_the_prompt_began() {
    let json = "{\"name\": \"weather\", \"parameters\": {}}";
    check_from("<|python_tag|>", Begin::Text, json, &[text(json)]);
    check_from(QWEN3, Begin::Text, "\n<think>x", &[text("\n<think>x")]);
    let [a, b] = call(0, "now", &json!({}));
    let more = "llo<|end|><|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
    check_from("<|channel|>", Begin::Text, more, &[text("llo"), a.clone(), b.clone()]);
    let hm = "m.<|end|><|start|>assistant<|channel|>final<|message|>Yes";
    check_from("<|channel|>", Begin::Reasoning, hm, &[reasoning("m."), text("Yes")]);
    // missing arguments are an empty object
    let empty = "<|channel|>commentary to=functions.now<|message|>";
    for end in ["", "<|call|>"] {
        check("<|channel|>", false, &format!("{empty}{end}"), &[a.clone(), b.clone()]);
    }
}

#[test]
fn without_tools_a_recipient_is_ignored() {
    let mut parser = AnswerParser::new(Style::of_template("<|channel|>"), Tools::default(), Begin::Turn);
    let mut out = Vec::new();
    parser.push("<|channel|>commentary to=functions.now<|message|>{}", &mut out);
    parser.finish(&mut out);
    assert_eq!(out, [text("{}")]);
}

#[test]
fn marks_of_calls_inside_reasoning_are_a_part_of_it() {
    let [a, b] = call(0, "now", &json!({}));
    let real = "<tool_call>{\"name\":\"now\"}</tool_call>";
    let thought = "I could use <tool_call>, no.";
    let opened = format!("<think>{thought}</think>");
    check(QWEN3, false, &format!("{opened}Sunny."), &[reasoning(thought), text("Sunny.")]);
    check(QWEN3, false, &format!("{opened}\n{real}"), &[reasoning(thought), a.clone(), b.clone()]);
    // an example is not executed
    let example = format!("like {real}, but no");
    check(QWEN3, false, &format!("<think>{example}</think>No."), &[reasoning(&example), text("No.")]);
    // in reasoning that never closes a call counts, a mention does not
    check(QWEN3, true, thought, &[reasoning(thought)]);
    check(QWEN3, true, &format!("{thought} So {real}"), &[reasoning(&format!("{thought} So")), a, b]);
    for (template, example) in [
        ("<function= </think>", "<function=weather>\n<parameter=city>\nRom\n</parameter>\n</function>"),
        (
            "<arg_key> </think>",
            "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rom</arg_value>\n</tool_call>",
        ),
        (
            "<｜tool▁calls▁begin｜> </think>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
    ] {
        let thought = format!("so: {example} or not");
        check(template, true, &format!("{thought}</think>No."), &[reasoning(&thought), text("No.")]);
    }
    let thought = "use [TOOL_CALLS]now[ARGS]{} or not";
    let answer = format!("[THINK]{thought}[/THINK]No.");
    check("[TOOL_CALLS] [/THINK]", false, &answer, &[reasoning(thought), text("No.")]);
}

#[test]
fn reasoning_is_streamed_up_to_a_mark() {
    let mut parser = AnswerParser::new(Style::of_template(QWEN3), tools(), Begin::Reasoning);
    let mut out = Vec::new();
    parser.push("I could use <tool_call>, no.", &mut out);
    assert_eq!(out, [reasoning("I could use")]);
    out.clear();
    parser.push("</think>Sunny.", &mut out);
    assert_eq!(out, [reasoning(" <tool_call>, no."), text("Sunny.")]);
}

#[test]
fn a_call_after_a_mention_of_its_mark_is_a_call() {
    let [a, b] = call(0, "now", &json!({}));
    let answer = "I use <tool_call> now.\n<tool_call>{\"name\":\"now\"}</tool_call>";
    check(QWEN3, false, answer, &[text("I use <tool_call> now."), a.clone(), b.clone()]);
    check(QWEN3, false, answer.trim_end_matches("</tool_call>"), &[text("I use <tool_call> now."), a, b]);
    let mentions = "<tool_call>".repeat(3_000);
    assert_eq!(parts(Style::of_template(QWEN3), Begin::Turn, &[&mentions]), [text(&mentions)]);
}

#[test]
fn string_literals_in_calls_are_repaired_in_every_style() {
    // as a model writes it: raw control characters, an unknown escape, half a surrogate pair
    let object = "{\"city\":\"a\nb\tc\r\u{1}\\d+ \\ud83d \\ud83d\\ude00\"}";
    let city = json!({"city": "a\nb\tc\r\u{1}\\d+ \u{fffd} \u{1f600}"});
    for (template, answer) in [
        (
            "<tool_call>",
            format!("<tool_call>\n{{\"name\": \"weather\", \"arguments\": {object}}}\n</tool_call>"),
        ),
        ("<tool_call>", format!("<tool_call>{{\"arguments\": {object}, \"name\": \"weather\"}}</tool_call>")),
        ("<function=", format!("<function=weather>{object}</function>")),
        ("<function=", format!("<tool_call>{{\"name\": \"weather\", \"arguments\": {object}}}</tool_call>")),
        ("<|python_tag|>", format!("{{\"name\": \"weather\", \"parameters\": {object}}}")),
        ("[TOOL_CALLS]", format!("[TOOL_CALLS][{{\"name\": \"weather\", \"arguments\": {object}}}]")),
        ("[TOOL_CALLS]", format!("[TOOL_CALLS]weather[ARGS]{object}")),
        (
            "<｜tool▁calls▁begin｜>",
            format!(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{object}<｜tool▁call▁end｜>\
                 <｜tool▁calls▁end｜>"
            ),
        ),
        ("<|channel|>", format!("<|channel|>commentary to=functions.weather<|message|>{object}<|call|>")),
    ] {
        let style = Style::of_template(template);
        let parts = parts(style, Begin::Turn, &[&answer]);
        let [Delta::Call { name, .. }, Delta::Arguments { text, .. }] = &parts[..] else {
            panic!("{answer}: {parts:?}")
        };
        assert_eq!((name.as_str(), serde_json::from_str::<Value>(text).unwrap()), ("weather", city.clone()));
        same_in_pieces(style, Begin::Turn, &answer);
    }
}

#[test]
fn a_harmony_recipient_may_lack_its_namespace() {
    let [a, b] = call(0, "weather", &json!({"city": "Rom"}));
    for header in [
        "<|channel|>commentary to=weather <|constrain|>json<|message|>",
        " to=weather<|channel|>commentary json<|message|>",
        "to=weather<|channel|>commentary<|message|>",
    ] {
        check("<|channel|>", false, &format!("{header}{{\"city\":\"Rom\"}}"), &[a.clone(), b.clone()]);
    }
    let other = "<|channel|>commentary to=elsewhere<|message|>{}";
    check("<|channel|>", false, other, &[text("{}")]);
}

/// The value of one parameter that is written as `text` in each notation of tags.
fn tagged_value(schema: &Value, key: &str, text: &str) -> Value {
    let tools = Tools::new(&[json!({ "function": { "name": "f", "parameters": schema } })]);
    let functions = format!("<function=f>\n<parameter={key}>\n{text}\n</parameter>\n</function>");
    let pairs =
        format!("<tool_call>f\n<arg_key>{key}</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>");
    let values = [("<function=", functions), ("<arg_key>", pairs)].map(|(template, answer)| {
        let mut parser = AnswerParser::new(Style::of_template(template), tools.clone(), Begin::Turn);
        let mut out = Vec::new();
        parser.push(&answer, &mut out);
        parser.finish(&mut out);
        let Some(Delta::Arguments { text, .. }) = out.pop() else { panic!("no call in {answer}") };
        let arguments: Value = serde_json::from_str(&text).expect("arguments are JSON");
        arguments[key].clone()
    });
    assert_eq!(values[0], values[1]);
    values[0].clone()
}

#[test]
fn words_of_python_in_tags_have_the_types_of_the_schema() {
    let schema = json!({ "properties": {
        "flag": { "type": "boolean" }, "maybe": { "type": ["boolean", "null"] }, "count": { "type": "integer" },
        "text": { "type": "string" }, "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        "word": { "enum": ["None", "True", null] }, "id": { "$ref": "#/$defs/id" },
        "list": { "anyOf": [{ "$ref": "#/$defs/id" }, { "type": "integer" }] } },
        "$defs": { "id": { "$ref": "#/$defs/name" }, "name": { "type": "string" } } });
    for (key, text, value) in [
        ("flag", "True", json!(true)),
        ("flag", "False", json!(false)),
        ("flag", "true", json!(true)),
        ("maybe", "None", Value::Null),
        ("maybe", "True", json!(true)),
        ("count", "None", Value::Null),
        ("count", "True", json!("True")),
        ("text", "True", json!("True")),
        ("text", "None", json!("None")),
        ("note", "None", Value::Null),
        ("note", "Nobody", json!("Nobody")),
        ("word", "None", json!("None")),
        ("word", "True", json!("True")),
        ("word", "null", Value::Null),
        ("id", "123", json!("123")),
        ("list", "123", json!("123")),
    ] {
        assert_eq!(tagged_value(&schema, key, text), value, "{key}: {text}");
    }
}

#[test]
fn without_a_declared_type_only_objects_and_lists_are_decoded() {
    for schema in [Value::Null, json!({ "properties": { "x": { "description": "any" } } })] {
        for text in ["007", "1e3", "12", "true", "null", "None", "\"quoted\"", "a b"] {
            assert_eq!(tagged_value(&schema, "x", text), json!(text));
        }
        assert_eq!(tagged_value(&schema, "x", "{\"a\": [1]}"), json!({"a": [1]}));
        assert_eq!(tagged_value(&schema, "x", "[1, 2]"), json!([1, 2]));
    }
}

#[test]
fn marks_in_a_tagged_value_are_a_part_of_it() {
    let schema = json!({ "properties": { "text": { "type": "string" }, "tag": { "type": "string" } } });
    for value in [
        "see </function> here",
        "a </parameter> b",
        "a </arg_value> b",
        "see </tool_call> here",
        "<tool_call> <function=f> <parameter=text> <arg_key>",
        "a\n</parameter>\n b </function>\n</tool_call> c",
        "a</parameter",
        "</parameter></parameter>",
    ] {
        assert_eq!(tagged_value(&schema, "text", value), json!(value));
        let arguments = json!({ "city": value, "unit": "t3" });
        let [a, b] = call(0, "weather", &arguments);
        let functions = format!(
            "<function=weather>\n<parameter=city>\n{value}\n</parameter>\n<parameter=unit>\nt3\n</parameter>\n\
             </function>"
        );
        let pairs = format!(
            "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>{value}</arg_value>\n<arg_key>unit</arg_key>\n\
             <arg_value>t3</arg_value>\n</tool_call>"
        );
        for (template, answer) in [
            ("<function=", functions.clone()),
            ("<function=", format!("<tool_call>\n{functions}\n</tool_call>")),
            ("<arg_key>", pairs),
        ] {
            check(template, false, &answer, &[a.clone(), b.clone()]);
            check(template, false, &format!("{answer} end"), &[a.clone(), b.clone(), text(" end")]);
        }
    }
}

#[test]
fn a_value_without_its_closing_mark_ends_with_the_call() {
    let [a, b] = call(0, "weather", &json!({"city": "Rom"}));
    let answer = "<tool_call>\n<function=weather>\n<parameter=city>\nRom\n</function>\n</tool_call>";
    check("<function=", false, answer, &[a.clone(), b.clone()]);
    let pairs = "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rom\n</tool_call>";
    check("<arg_key>", false, pairs, &[a, b]);
}

#[test]
fn a_value_that_is_cut_off_behind_a_mark_is_no_call() {
    for (template, answer) in [
        ("<function=", "<function=weather>\n<parameter=city>\nsee </function> he"),
        ("<function=", "<tool_call>\n<function=weather>\n<parameter=city>\na </parameter> b </tool_call> c"),
        ("<arg_key>", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>a </tool_call> b"),
    ] {
        check(template, false, answer, &[text(answer)]);
    }
}

/// The marks of Gemma 4's template.
const GEMMA4: &str = "<|tool_call>call: <|channel>thought <channel|>";

/// Answers and parts are those of llama.cpp's tests of Gemma 4's template.
#[test]
fn gemma_calls_have_marks_around_texts() {
    let one = |body: &str, arguments: &Value| {
        let call = call(0, "weather", arguments);
        check(GEMMA4, false, &format!("<|tool_call>call:weather{body}<tool_call|>"), &call);
    };
    one("{}", &json!({}));
    one("{city:<|\"|>San Francisco<|\"|>}", &json!({ "city": "San Francisco" }));
    one("{days:42}", &json!({ "days": 42 }));
    one("{days:-7}", &json!({ "days": -7 }));
    one("{days:2.75}", &json!({ "days": 2.75 }));
    one("{days:1.5e10}", &json!({ "days": 1.5e10 }));
    one("{a:true,b:false,c:null}", &json!({ "a": true, "b": false, "c": null }));
    one("{tags:[<|\"|>buy milk<|\"|>,<|\"|>walk dog<|\"|>]}", &json!({ "tags": ["buy milk", "walk dog"] }));
    one("{tags:[]}", &json!({ "tags": [] }));
    one(
        "{a:{theme:<|\"|>dark<|\"|>,count:3},b:{}}",
        &json!({ "a": { "theme": "dark", "count": 3 }, "b": {} }),
    );
    let calls = [call(0, "weather", &json!({ "city": "London" })), call(1, "now", &json!({}))].concat();
    let answer =
        "<|tool_call>call:weather{city:<|\"|>London<|\"|>}<tool_call|><|tool_call>call:now{}<tool_call|>";
    check(GEMMA4, false, answer, &calls);
    let said = [text("Hello,\nthere"), calls[2].clone(), calls[3].clone()];
    let [Delta::Call { name, .. }, arguments] = call(0, "now", &json!({})) else {
        panic!("a call has two parts")
    };
    let said = [said[0].clone(), Delta::Call { index: 0, name }, arguments];
    check(GEMMA4, false, "Hello,\nthere<|tool_call>call:now{}<tool_call|>", &said);
}

/// As the template prints Python's values, and as models write that know JSON better.
#[test]
fn gemma_calls_may_be_written_like_json_or_python() {
    for (body, arguments) in [
        ("{ city: <|\"|>a<|\"|> , days : 3 }", json!({ "city": "a", "days": 3 })),
        ("{a:None,b:True,c:False}", json!({ "a": null, "b": true, "c": false })),
        ("{\"city\":\"a\\\"}\"}", json!({ "city": "a\"}" })),
        ("{{\"city\": \"a\"}}", json!({ "city": "a" })),
        ("{<|\"|>a b<|\"|>:{<|\"|>c<|\"|>:1}}", json!({ "a b": { "c": 1 } })),
        ("{city:New York,days:2}", json!({ "city": "New York", "days": 2 })),
        ("{city:<|\"|>}<tool_call|>\n{<|\"|>}", json!({ "city": "}<tool_call|>\n{" })),
    ] {
        let answer = format!("<|tool_call>call:weather{body}<tool_call|>");
        check(GEMMA4, false, &answer, &call(0, "weather", &arguments));
    }
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let answer = format!("<|tool_call>call:weather{{tags:{deep}}}<tool_call|>");
    check(
        GEMMA4,
        false,
        &answer,
        &call(0, "weather", &json!({ "tags": serde_json::from_str::<Value>(&deep).unwrap() })),
    );
}

#[test]
fn what_is_no_call_of_gemma_stays_text() {
    for answer in [
        "<|tool_call>call:weather{city:<|\"|>a",
        "<|tool_call>call:weather{city:<|\"|>a}<tool_call|>",
        "<|tool_call>call:weather{city<tool_call|>",
        "<|tool_call>call:weather{days:}<tool_call|>",
        "<|tool_call>call:{}<tool_call|>",
        "<|tool_call>weather{}<tool_call|>",
        "<|tool_call>call:weather{} x<tool_call|>",
        &format!("<|tool_call>call:weather{{tags:{}}}<tool_call|>", "[".repeat(100_000)),
    ] {
        let style = Style::of_template(GEMMA4);
        assert_eq!(parts(style, Begin::Turn, &[answer]), [text(answer)]);
        if answer.len() < 1000 {
            same_in_pieces(style, Begin::Turn, answer);
        }
    }
}

/// The first five are llama.cpp's tests.
#[test]
fn gemma_reasons_in_channels() {
    let both = [reasoning("I'm\nthinking"), text("Hello")];
    check(GEMMA4, false, "<|channel>thought\nI'm\nthinking<channel|>Hello", &both);
    check(GEMMA4, false, "<|channel>thought<channel|>Hello", &[text("Hello")]);
    check(GEMMA4, false, "<|channel>thought\n<channel|>Hello<channel|>", &[text("Hello")]);
    check(GEMMA4, false, "<|channel>thought\n<channel|>Hello<|channel>thought\n<channel|>", &[text("Hello")]);
    check(GEMMA4, false, "<|channel><|channel>thought\n<channel|>Hello", &[text("Hello")]);
    // white space at the end of a text waits for more text
    let again = [reasoning("a"), text("b"), reasoning("c"), text(" d")];
    check(GEMMA4, false, "<|channel>thought\na<channel|>b <|channel>thought\nc<channel|>d", &again);
    let calls = [&[reasoning("hm")][..], &call(0, "now", &json!({}))].concat();
    check(GEMMA4, true, "hm<channel|><|tool_call>call:now{}<tool_call|>", &calls);
    check(GEMMA4, true, "hm<|tool_call>call:now{}<tool_call|>", &calls);
    check("<channel|>", false, "a <|channel> b", &[text("a  b")]);
}

/// Qwen3.5, 3.6 and 3.8 reason and call in tags; Qwen3-Coder-Next calls in the same tags and does not reason.
#[test]
fn qwen_calls_after_reasoning_in_tags() {
    let template = "<tool_call>\n<function= <think> </think>";
    let tag = "<tool_call>\n<function=weather>\n<parameter=city>\nRom\n</parameter>\n<parameter=days>\n3\n</parameter>\n\
               </function>\n</tool_call>";
    let wanted = call(0, "weather", &json!({ "city": "Rom", "days": 3 }));
    let expected = [&[reasoning("hm"), text("I look.")][..], &wanted].concat();
    check(template, true, &format!("hm\n</think>\n\nI look.\n\n{tag}"), &expected);
    check(template, true, &format!("hm\n{tag}"), &[&[reasoning("hm")][..], &wanted].concat());
    let second = call(1, "now", &json!({}));
    let both = [&wanted[..], &second].concat();
    let now = "<tool_call>\n<function=now>\n</function>\n</tool_call>";
    check("<tool_call>\n<function=", false, &format!("{tag}\n{now}"), &both);
}

/// The calls in what a template prints for a message of the assistant, read back; `None` if it refuses the messages or has
/// no calls.
fn printed_calls(source: &str, calls: &Value) -> Option<Vec<(String, Value)>> {
    let style = Style::of_template(source);
    let template = ChatTemplate::new(source, SpecialTokens { bos: "<s>".into(), eos: "</s>".into() }).ok()?;
    let (variables, now) = (Map::new(), Moment { seconds: 0 });
    let tools: Vec<Value> = ["weather", "now"]
        .map(|name| {
            json!({ "type": "function", "function": { "name": name, "description": name, "parameters": {
            "type": "object", "properties": { "city": { "type": "string", "description": "a" } } } } })
        })
        .to_vec();
    let asked = [json!({ "role": "user", "content": "a" })];
    let called = [asked[0].clone(), json!({ "role": "assistant", "content": "", "tool_calls": calls })];
    let render = |messages: &[Value], prompt: bool| {
        let input = ChatInput::new(messages, &variables, now);
        template.render(&ChatInput { tools: Some(&tools), add_generation_prompt: prompt, ..input }).ok()
    };
    let (prompt, whole) = (render(&asked, true)?, render(&called, false)?);
    if style.calls == CallStyle::None {
        return None;
    }
    let same = prompt.char_indices().zip(whole.chars()).take_while(|((_, a), b)| a == b);
    let common = same.last().map_or(0, |((at, character), _)| at + character.len_utf8());
    // not within a mark
    let begin = whole[..common].rfind(['\n', '>', ']']).map_or(0, |at| at + 1);
    let begins = if style.begins_thinking(&whole[..begin]) { Begin::Reasoning } else { Begin::Turn };
    let mut found: Vec<(String, String)> = Vec::new();
    for delta in parts(style, begins, &[&whole[begin..]]) {
        match delta {
            Delta::Call { name, .. } => found.push((name, String::new())),
            Delta::Arguments { index, text } => found[index].1.push_str(&text),
            _ => {}
        }
    }
    same_in_pieces(style, begins, &whole[begin..]);
    Some(
        found
            .into_iter()
            .map(|(name, text)| (name, serde_json::from_str(&text).unwrap_or(Value::Null)))
            .collect(),
    )
}

/// Templates of a folder, such as `models/templates` of llama.cpp's sources: what they print for calls is read back as the
/// same calls, for every split. The families of which this must hold are named; the others are printed.
#[test]
fn calls_that_templates_print_are_read_back() {
    const NAMED: [&str; 6] = [
        "Qwen3.5-4B",
        "Qwen3-Coder",
        "Qwen-Qwen3-0.6B",
        "google-gemma-4-31B-it",
        "google-gemma-4-31B-it-interleaved",
        "GLM-4.6",
    ];
    let Some(folder) = std::env::var_os("DOORBELL_TEMPLATES") else {
        println!("skipped: DOORBELL_TEMPLATES is not set");
        return;
    };
    let arguments =
        [json!({ "city": "Köln \"a\" <b>", "days": 3, "tags": [1, { "x": "y" }], "unit": null }), json!({})];
    let call = |name: &str, arguments: &Value| json!({ "id": "abcdefghi", "type": "function", "function": { "name": name, "arguments": arguments } });
    let calls = json!([call("weather", &arguments[0]), call("now", &arguments[1])]);
    let [weather, now] = arguments;
    let wanted = vec![("weather".to_owned(), weather), ("now".to_owned(), now)];
    let (mut equal, mut refused) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(source) = std::fs::read_to_string(&path) else { continue };
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        match printed_calls(&source, &calls) {
            Some(found) if found == wanted => equal.push(name),
            Some(found) => println!("{name}: {found:?}"),
            None => refused += 1,
        }
    }
    println!("{} equal, {refused} without calls", equal.len());
    for name in NAMED {
        assert!(equal.iter().any(|equal| equal == name), "{name} is not among {equal:?}");
    }
}
