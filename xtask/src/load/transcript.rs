//! An agent's conversation that grows turn by turn: the share of each prompt that came from the cache.

use super::{http, words};
use anyhow::{Context as _, bail};
use core::net::SocketAddr;
use serde_json::{Value, json};
use std::time::Instant;

/// Words of each message of the user.
const MESSAGE_WORDS: usize = 90;

/// Tokens of each answer at most.
const ANSWER: usize = 48;

/// Plays the conversation. Returns its figures in one line.
pub(super) fn play(address: SocketAddr, turns: usize) -> Result<String, anyhow::Error> {
    let mut messages = vec![json!({ "role": "system", "content": words(999, 4 * MESSAGE_WORDS) })];
    let (mut before, mut reusable, mut reused, mut total) = (0, 0, 0, 0);
    let start = Instant::now();
    for turn in 0..turns {
        messages.push(json!({ "role": "user", "content": words(turn as u64 + 1, MESSAGE_WORDS) }));
        let body = json!({ "messages": messages, "temperature": 0, "max_tokens": ANSWER });
        let (status, answer) = http::post(address, "/v1/chat/completions", &body)?;
        if status != 200 {
            bail!("turn {turn}: status {status}: {answer}");
        }
        let answer: Value = serde_json::from_str(&answer).context("an answer in JSON")?;
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let usage = &answer["usage"];
        let prompt = number(&usage["prompt_tokens"]);
        // the tokens of the previous turn are the beginning of this turn's prompt
        reusable += before;
        reused += number(&usage["prompt_tokens_details"]["cached_tokens"]).min(before);
        total += prompt;
        before = prompt + number(&usage["completion_tokens"]);
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        messages.push(json!({ "role": "assistant", "content": text }));
    }
    let share = 100.0 * reused as f64 / reusable.max(1) as f64;
    Ok(format!(
        "{turns} turns, {total} prompt tokens, {reusable} reusable, {reused} reused ({share:.1} %), {:.1} s",
        start.elapsed().as_secs_f64()
    ))
}
