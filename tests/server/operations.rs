//! Endpoints for operators.

use crate::chat::{ask, with};
use crate::client::{PATIENCE, Server, until};
use crate::serving::{Kind, file, served};
use core::time::Duration;
use doorbell_core::engine::{Config, Engine};
use doorbell_core::heap::Global;
use doorbell_core::model::Model;
use doorbell_core::token::Tokenizer;
use doorbell_runtime::serve::Service;
use doorbell_server::engine_end;
use doorbell_tests::scripted::{LOST, PANIC, Scripted};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;

#[test]
fn health_numbers_and_models_are_reported() {
    let server = Server::start(&Kind::default());
    assert_eq!(server.get("/health").ok()["status"], "ok");
    assert_eq!(server.get("/live").ok()["status"], "ok");
    assert_eq!(server.get("/v1/stats").ok(), json!({}));
    server.post("/v1/chat/completions", &ask("[[abc]]")).ok();
    let stats = server.get("/v1/stats").ok();
    assert_eq!(stats["output_tokens"], 3);
    assert!(stats["time_to_first_token"].as_f64().unwrap() > 0.0);
    assert_eq!(server.get("/v1/system-info").ok()["device"], "scripted");
    assert_eq!(server.get("/props").ok()["total_slots"], 4);
    assert_eq!(server.get("/slots").ok().as_array().unwrap().len(), 4);
    let models = server.get("/v1/models").ok();
    assert_eq!(models["data"][0]["id"], "scripted");
    assert_eq!(models["data"][0]["meta"]["n_vocab"], 512);
    assert_eq!(models["data"][0]["meta"]["vocab_type"], 2);
    assert_eq!(server.get("/v1/models/scripted").ok(), models["data"][0]);
    let missing = server.get("/v1/models/other%2Fmodel");
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("other/model"));
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let server = Server::start(&Kind::default());
    server.post("/v1/chat/completions", &ask("[[abc]]")).ok();
    assert_eq!(server.metric("vllm:generation_tokens_total"), 3.0);
    assert_eq!(server.metric("llamacpp:tokens_predicted_total"), 3.0);
    assert_eq!(server.metric("vllm:time_to_first_token_seconds_count"), 1.0);
    assert_eq!(server.metric("vllm:num_requests_running"), 0.0);
    assert_eq!(server.metric("doorbell_up"), 1.0);
    let plain = server.get("/metrics");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(plain.header("process-start-time-unix").is_some() && !plain.body.contains("# EOF"));
    let counted = ["prompt_tokens", "prompt_tokens_cached", "prompt_seconds", "tokens_predicted", "n_decode"];
    for name in counted {
        assert!(plain.body.contains(&format!("# TYPE llamacpp:{name}_total counter\n")), "{name}");
        assert!(plain.body.contains(&format!("# HELP llamacpp:{name}_total ")), "{name}");
    }
    assert!(server.metric("llamacpp:n_decode_total") > 0.0);
    // vLLM's dashboards select by this label
    let named = plain.body.lines().filter(|line| line.starts_with("vllm:"));
    assert!(named.clone().all(|line| line.contains("{model_name=\"scripted\"")), "{}", plain.body);
    for name in [
        "inter_token_latency_seconds_bucket",
        "request_queue_time_seconds_sum",
        "request_prefill_time_seconds_sum",
        "request_decode_time_seconds_sum",
        "request_prompt_tokens_bucket",
        "request_generation_tokens_bucket",
        "prefix_cache_hits_total",
        "kv_cache_usage_perc",
    ] {
        assert!(named.clone().any(|line| line.starts_with(&format!("vllm:{name}{{"))), "{name}");
    }
    let ended = "vllm:request_success_total{model_name=\"scripted\",finished_reason=\"stop\"} 1";
    assert!(plain.body.lines().any(|line| line == ended), "{}", plain.body);
    let accept = [("accept", "application/openmetrics-text; version=1.0.0")];
    let open = server.send("GET", "/metrics", &accept, "");
    assert!(open.body.ends_with("# EOF\n") && open.body.contains("# TYPE llamacpp:prompt_tokens counter\n"));
}

#[test]
fn every_gap_between_tokens_is_counted() {
    let server = Server::start(&Kind::default());
    for text in ["abcd", "ab", "a"] {
        server.post("/v1/chat/completions", &ask(&format!("[[{text}]]"))).ok();
    }
    assert_eq!(server.metric("vllm:inter_token_latency_seconds_count"), 3.0 + 1.0);
    assert_eq!(server.metric("vllm:time_per_output_token_seconds_count"), 2.0);
    assert!(server.metric("vllm:inter_token_latency_seconds_sum") > 0.0);
}

#[test]
fn every_refused_request_is_counted_once() {
    let server = Server::start(&Kind::default());
    let long = json!({ "prompt": "x".repeat(20_000) });
    for (method, path, body, status) in [
        ("POST", "/v1/chat/completions", "{}".to_owned(), 400),
        ("POST", "/v1/chat/completions", "no JSON".to_owned(), 400),
        ("POST", "/v1/completions", long.to_string(), 400),
        ("POST", "/v1/embeddings", json!({ "input": "x".repeat(20_000) }).to_string(), 400),
        ("POST", "/api/pull", "{}".to_owned(), 501),
        ("GET", "/v1/nothing", String::new(), 404),
        ("GET", "/v1/chat/completions", String::new(), 405),
    ] {
        let before = server.metric("doorbell_requests_refused_total");
        assert_eq!(server.send(method, path, &[], &body).status, status, "{path}");
        assert_eq!(server.metric("doorbell_requests_refused_total"), before + 1.0, "{method} {path}");
    }
    let foreign = server.send("GET", "/v1/models", &[("origin", "http://example.com")], "");
    assert_eq!(foreign.status, 403);
    assert_eq!(server.metric("doorbell_requests_refused_total"), 8.0);
    // an answer that fails was taken
    assert_eq!(server.post("/v1/chat/completions", &ask("[[ab{NaN}]]")).status, 500);
    assert_eq!(server.metric("doorbell_requests_refused_total"), 8.0);
    assert_eq!(server.metric("doorbell_requests_failed_total"), 1.0);
}

/// The metrics of requests whose counts are known.
#[test]
fn histograms_have_what_was_counted() {
    let server = Server::start(&Kind::endless());
    let post = |text: &str| {
        let body = ask(&format!("{} [[{text}]]", "the same before all of them ".repeat(4)));
        server.post("/v1/chat/completions", &body).ok()
    };
    let mut answers = vec![post("abcd")];
    // one request beside it that does not end
    let body = with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": true })).to_string();
    let beside = server.open("POST", "/v1/chat/completions", &[], &body);
    until("it runs", || server.get("/health").json()["requests"]["running"] == 1);
    answers.extend(["abcdefgh", "abcdefgi"].map(post));
    drop(beside);
    server.wait_idle();
    let sum = |pointer: &str| {
        answers.iter().map(|answer| answer.pointer(pointer).unwrap().as_f64().unwrap()).sum::<f64>()
    };
    let count = answers.len() as f64;
    for (name, of, total) in [
        ("vllm:request_prompt_tokens", 1.0, sum("/usage/prompt_tokens")),
        ("vllm:request_generation_tokens", 1.0, sum("/usage/completion_tokens")),
        ("vllm:request_queue_time_seconds", 1e3, sum("/timings/queue_ms")),
        ("vllm:request_prefill_time_seconds", 1e3, sum("/timings/prompt_ms")),
        ("vllm:request_decode_time_seconds", 1e3, sum("/timings/predicted_ms")),
        ("vllm:time_to_first_token_seconds", 1e3, sum("/timings/queue_ms") + sum("/timings/prompt_ms")),
        ("vllm:time_per_output_token_seconds", 1e3, sum("/timings/predicted_per_token_ms")),
    ] {
        assert_eq!(server.metric(&format!("{name}_count")), count, "{name}");
        let (sum, total) = (server.metric(&format!("{name}_sum")), total / of);
        assert!((sum - total).abs() <= 1e-6 * total.abs(), "{name}: {sum} of {total}");
    }
    let cached = "/usage/prompt_tokens_details/cached_tokens";
    assert!(sum(cached) >= 64.0);
    assert_eq!(server.metric("vllm:prefix_cache_hits_total"), sum(cached));
    assert_eq!(server.metric("vllm:prefix_cache_queries_total"), sum("/usage/prompt_tokens"));
    assert_eq!(server.metric("llamacpp:prompt_tokens_total"), sum("/timings/prompt_n"));
    let share = |answer: &Value| {
        answer.pointer(cached).unwrap().as_f64().unwrap() / answer["usage"]["prompt_tokens"].as_f64().unwrap()
    };
    assert!(
        (server.metric("doorbell_cached_share_sum") - answers.iter().map(share).sum::<f64>()).abs() < 1e-9
    );
    assert_eq!(server.metric("doorbell_cached_share_bucket{le=\"0.0\"}"), 1.0);
    // steps of one and of two requests; not every scrape changes it
    let steps = server.metric("doorbell_batch_size_count");
    assert_eq!(steps, server.metric("llamacpp:n_decode_total"));
    let alone = server.metric("doorbell_batch_size_bucket{le=\"1.0\"}");
    assert!(alone >= 4.0 && alone + 16.0 <= steps, "{alone} of {steps}");
    assert_eq!(server.metric("doorbell_batch_size_bucket{le=\"2.0\"}"), steps);
    assert_eq!(server.metric("doorbell_batch_size_sum"), alone + 2.0 * (steps - alone));
    let last = server.get("/v1/stats").ok()["timings"]["prompt_per_second"].as_f64().unwrap();
    let rate = server.metric("llamacpp:prompt_tokens_seconds");
    assert!((rate - last).abs() <= 1e-6 * last, "{rate} of {last}");
}

/// The thread that answers probes does no other work: a connection that begins with a probe ends with its answer.
#[test]
fn a_connection_of_probes_serves_nothing_else() {
    let server = Server::start(&Kind::default());
    for path in ["/health", "/live", "/metrics", "/api/v0/health"] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.to_lowercase().contains("connection: close\r\n"), "{answer}");
    }
}

/// The first request of a connection may arrive in pieces.
#[test]
fn a_request_in_single_bytes_is_routed_as_any_other() {
    let server = Server::start(&Kind::default());
    for (path, kept) in [("/health", false), ("/v1/health", false), ("/v1/models", true), ("/heal", true)] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for byte in format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").bytes() {
            stream.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).unwrap();
        let answer = core::str::from_utf8(&answer[..length]).unwrap().to_lowercase();
        assert!(answer.starts_with("http/1.1 "), "{path}: {answer}");
        assert_eq!(!answer.contains("connection: close\r\n"), kept, "{path}: {answer}");
    }
}

#[test]
fn every_version_of_a_path_answers() {
    let server = Server::start(&Kind::default());
    for prefix in ["/v1", "/api/v1", "/v0", "/api/v0"] {
        assert_eq!(server.get(&format!("{prefix}/models")).status, 200);
        assert_eq!(server.get(&format!("{prefix}/health")).status, 200);
        let answer = server.post(&format!("{prefix}/chat/completions"), &ask("[[hi]]")).ok();
        assert_eq!(answer["choices"][0]["message"]["content"], "hi");
    }
}

#[test]
fn text_becomes_tokens_and_text_again() {
    let server = Server::start(&Kind::default());
    let body = json!({ "content": "the 北 <|im_end|>", "with_pieces": true });
    let tokens = server.post("/tokenize", &body).ok();
    let tokens = tokens["tokens"].as_array().unwrap();
    assert_eq!(tokens.last().unwrap()["piece"], "<|im_end|>");
    assert!(tokens.iter().any(|token| token["piece"].is_array()), "a part of a character is bytes");
    let ids: Vec<Value> = tokens.iter().map(|token| token["id"].clone()).collect();
    let text = server.post("/detokenize", &json!({ "tokens": ids })).ok();
    assert_eq!(text["content"], "the 北 <|im_end|>");
    assert_eq!(server.post("/detokenize", &json!({ "tokens": [512] })).status, 400);
    assert_eq!(server.post("/detokenize", &json!({ "tokens": [-1] })).status, 400);
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let server = Server::start(&Kind::default());
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    assert!(!page.body.contains("http:") && !page.body.contains("https:") && !page.body.contains(" src="));
    assert_eq!(server.send("HEAD", "/", &[], "").status, 200);
}

#[test]
fn missing_paths_are_reported_in_json() {
    let server = Server::start(&Kind::default());
    let missing = server.get("/v1/nothing");
    assert_eq!((missing.status, missing.json()["error"]["code"].as_u64()), (404, Some(404)));
    let wrong = server.get("/v1/chat/completions");
    assert_eq!(wrong.status, 405);
    let rerank = server.post("/v1/rerank", &json!({ "query": "a" }));
    assert_eq!((rerank.status, rerank.json()["error"]["type"].as_str()), (501, Some("not_supported_error")));
}

/// A server without requests draws no power.
#[test]
fn an_idle_device_is_suspended() {
    let kind = Kind::default();
    let gguf = file(&kind);
    let model: &'static Model<'static> = Box::leak(Box::new(Model::new(gguf, &Global).unwrap()));
    let tokenizer: &'static Tokenizer<'static> = Box::leak(Box::new(Tokenizer::new(gguf, &Global).unwrap()));
    let config = Config::new(kind.context, 1, 64);
    let (sender, receiver) = channel();
    let backend = Scripted::new(model, tokenizer, config.pages, Duration::ZERO).telling(sender);
    let engine = Engine::new(model, backend, config, &[], &Global).unwrap();
    let service = Service::start_resting(engine, tokenizer, Duration::from_millis(1)).unwrap();
    for _ in 0..3 {
        receiver.recv().unwrap();
        // the device is suspended once, until a request comes
        assert!(receiver.try_recv().is_err());
        service.run_task(|_| ()).unwrap();
    }
    service.stop();
}

/// Report 24: a device that fails during an answer is reported as down until it works again.
#[test]
fn health_follows_a_device_that_fails() {
    let server = Server::start(&Kind::default());
    assert_eq!(server.get("/health").status, 200);
    for _ in 0..2 {
        let failed = server.post("/v1/completions", &json!({ "prompt": format!("[[ab{LOST}]]") }));
        assert!(failed.status >= 500, "{} {}", failed.status, failed.body);
        for _ in 0..3 {
            let health = server.get("/health");
            assert_eq!(health.status, 503);
            assert!(health.body.contains("the device has failed"), "{}", health.body);
        }
        assert_eq!(server.metric("doorbell_up"), 0.0);
        assert_eq!(server.get("/live").status, 200);
        let works = server.post("/v1/completions", &json!({ "prompt": "[[abc]]" })).ok();
        assert_eq!(works["choices"][0]["text"], "abc");
        assert_eq!((server.get("/health").status, server.metric("doorbell_up")), (200, 1.0));
    }
}

/// A host learns that the engine has ended, and not before.
#[test]
fn the_end_of_an_engine_completes_a_future() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let kind = Kind::default();
    let service = served(&kind, file(&kind)).service;
    let mut end = Box::pin(engine_end(service.clone()));
    assert!(runtime.block_on(async { tokio::time::timeout(Duration::ZERO, &mut end).await }).is_err());
    service.stop();
    until("the engine ends", || service.load().ended);
    runtime.block_on(end);
}

/// Running, waiting and later requests get an error, and the server can end.
#[test]
fn an_engine_that_panics_leaves_no_request_waiting() {
    let (steps, begun) = channel();
    let kind = Kind { parallel: 1, pause: Duration::from_millis(20), steps: Some(steps), ..Kind::default() };
    let mut server = Server::start(&kind);
    let words = "a long way to go ".repeat(4);
    let body =
        json!({ "prompt": format!("[[{words}{PANIC}]]"), "max_tokens": 200, "stream": true }).to_string();
    let mut streaming = server.open("POST", "/v1/completions", &[], &body);
    begun.recv_timeout(PATIENCE).unwrap();
    let plain = json!({ "prompt": "[[ok]]", "input": "ok" }).to_string();
    let waiting = ["/v1/completions", "/v1/completions", "/v1/embeddings"]
        .map(|path| server.open("POST", path, &[], &plain));
    let mut read = String::new();
    streaming.read_to_string(&mut read).unwrap();
    assert!(read.contains("data: {\"error\":") && read.contains("the engine has ended"), "{read}");
    for mut waiting in waiting {
        let mut answer = String::new();
        waiting.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    let health = server.get("/health");
    assert_eq!(health.status, 503, "{}", health.body);
    assert_eq!(server.get("/live").status, 200);
    for path in ["/v1/completions", "/v1/embeddings"] {
        let answer = server.send("POST", path, &[], &plain);
        assert_eq!(answer.status, 503, "{path} {}", answer.body);
    }
    server.stop();
}
