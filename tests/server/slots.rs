//! `/slots`: requests in progress, and prefixes saved to disk and restored.

use crate::chat::{ask, with};
use crate::client::{Server, until};
use crate::serving::{Kind, file, served};
use alloc::sync::Arc;
use doorbell_core::backend::{Backend, KvType};
use doorbell_core::engine::{Config, Engine};
use doorbell_core::gguf::Gguf;
use doorbell_core::heap::{Global, Heap};
use doorbell_core::model::{KvGroup, Model};
use doorbell_core::plan::KvPages;
use doorbell_core::reference::{Products, Reference};
use doorbell_core::sample::SamplerParams;
use doorbell_core::token::{TokenId, Tokenizer};
use doorbell_cpu::backend::CpuBackend;
use doorbell_runtime::prefix::{FileName, PrefixError, PrefixFolder};
use doorbell_runtime::serve::{GenerationParams, Job, Service, Update};
use doorbell_tests::tiny::{self, Family};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const HEAP: Heap<'static> = &Global;
const CHAT: &str = "/v1/chat/completions";

/// An empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn long() -> Value {
    ask(&format!("{} [[well]]", "all of this will be known later ".repeat(8)))
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[test]
fn a_prefix_outlives_its_server() {
    let kind = Kind { folder: Some(folder("slots-outlive")), ..Kind::default() };
    let name = json!({ "filename": "slot1.bin" });
    let (saved, answer) = {
        let server = Server::start(&kind);
        let answer = server.post(CHAT, &with(long(), json!({ "id_slot": 1 }))).ok();
        let saved = server.post("/slots/1?action=save", &name).ok();
        (saved, answer)
    };
    assert_eq!((&saved["id_slot"], &saved["filename"]), (&json!(1), &json!("slot1.bin")));
    assert!(saved["timings"]["save_ms"].is_f64());
    let total = answer["usage"]["total_tokens"].as_u64().unwrap();
    let tokens = saved["n_saved"].as_u64().unwrap();
    assert!(tokens.is_multiple_of(32) && tokens < total && tokens + 33 > total, "{tokens} of {total}");
    let path = kind.folder.as_ref().unwrap().join("slot1.bin");
    assert_eq!(saved["n_written"], path.metadata().unwrap().len());
    let server = Server::start(&kind);
    let restored = server.post("/slots/0?action=restore", &name).ok();
    assert_eq!((&restored["id_slot"], &restored["n_restored"]), (&json!(0), &saved["n_saved"]));
    assert_eq!(restored["n_read"], saved["n_written"]);
    assert!(restored["timings"]["restore_ms"].is_f64());
    let again = server.post(CHAT, &long()).ok();
    assert_eq!(again["choices"][0]["message"], answer["choices"][0]["message"]);
    let prompt = again["usage"]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(cached(&again), ((prompt - 1) / 32 * 32).min(tokens));
    // the prefix of a slot can be saved from it, too
    let copy = server.post("/slots/0?action=save", &json!({ "filename": "copy" })).ok();
    assert!(copy["n_saved"].as_u64().unwrap() >= tokens);
    server.wait_idle();
}

#[test]
fn an_erased_prefix_is_computed_anew() {
    let server = Server::start(&Kind::default());
    let body = with(long(), json!({ "id_slot": 2 }));
    let first = server.post(CHAT, &body).ok();
    assert!(cached(&server.post(CHAT, &body).ok()) > 0);
    let erased = server.post("/slots/2?action=erase", &json!({})).ok();
    assert_eq!(erased["id_slot"], 2);
    assert_eq!(erased["n_erased"], first["usage"]["total_tokens"]);
    let again = server.post(CHAT, &body).ok();
    assert_eq!((cached(&again), &again["choices"]), (0, &first["choices"]));
    // also if the request names no slot
    assert_eq!(cached(&server.post(CHAT, &with(long(), json!({ "cache_prompt": false }))).ok()), 0);
    assert!(cached(&server.post(CHAT, &long()).ok()) > 0);
}

#[test]
fn slots_list_requests_in_progress() {
    let server = Server::start(&Kind { parallel: 2, ..Kind::endless() });
    let idle = server.get("/slots").ok();
    assert!(idle.as_array().unwrap().iter().all(|slot| slot["next_token"][0]["n_remain"] == -1));
    let body = with(ask("[[go]]"), json!({ "ignore_eos": true, "stream": true, "id_slot": 1 }));
    let stream = server.open("POST", CHAT, &[], &body.to_string());
    let mut busy = Value::Null;
    until("a slot is busy", || {
        busy = server.get("/slots").ok();
        busy[1]["is_processing"] == true
    });
    assert_eq!(busy[0]["is_processing"], false);
    assert!(busy[1]["n_prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(server.get("/slots?fail_on_no_slot=1").status, 200);
    let other = server.open("POST", CHAT, &[], &with(body, json!({ "id_slot": -1 })).to_string());
    until("no slot is free", || server.get("/slots?fail_on_no_slot=1").status == 503);
    drop((stream, other));
    server.wait_idle();
    assert_eq!(server.post(CHAT, &with(ask("[[a]]"), json!({ "id_slot": 2 }))).status, 400);
}

#[test]
fn no_file_name_leads_out_of_the_folder() {
    let kind = Kind { folder: Some(folder("slots-names")), ..Kind::default() };
    let path = kind.folder.clone().unwrap();
    std::fs::write(path.join("../slots-outside"), "x").unwrap();
    std::fs::create_dir(path.join("inner")).unwrap();
    std::os::unix::fs::symlink("../slots-outside", path.join("link")).unwrap();
    let server = Server::start(&kind);
    server.post(CHAT, &with(long(), json!({ "id_slot": 0 }))).ok();
    let names =
        ["../slots-outside", "/etc/passwd", "inner/x", "..", ".", "", ".hidden", "a\u{0}b", "a\\b", "a b"];
    for action in ["save", "restore"] {
        for name in names.map(Value::from).into_iter().chain([json!(3), Value::Null, json!(["a"])]) {
            let answer = server.post(&format!("/slots/0?action={action}"), &json!({ "filename": name }));
            assert_eq!(answer.status, 400, "{action} {name}: {}", answer.body);
            assert_eq!(answer.json()["error"]["param"], "filename");
        }
    }
    for name in ["link", "inner", "missing"] {
        let answer = server.post("/slots/0?action=restore", &json!({ "filename": name }));
        assert_eq!(answer.status, 400, "{name}");
        assert!(!answer.body.contains("slots-names"), "{}", answer.body);
    }
    // a link is replaced, never followed
    server.post("/slots/0?action=save", &json!({ "filename": "link" })).ok();
    assert_eq!(std::fs::read(path.join("../slots-outside")).unwrap(), b"x");
    for (request, status) in [
        ("/slots/4?action=save", 400),
        ("/slots/x?action=save", 400),
        ("/slots/0?action=burn", 400),
        ("/slots/0", 400),
        ("/slots/9?action=erase", 400),
    ] {
        assert_eq!(server.post(request, &json!({ "filename": "a" })).status, status, "{request}");
    }
    let closed = Server::start(&Kind::default());
    let answer = closed.post("/slots/0?action=save", &json!({ "filename": "a" }));
    assert_eq!((answer.status, answer.json()["error"]["type"].as_str()), (501, Some("not_supported_error")));
}

/// A service without a server, and its folder.
fn alone(kind: &Kind) -> (Service, PrefixFolder) {
    let gguf = file(kind);
    let folder = PrefixFolder::new(kind.folder.as_ref().unwrap(), gguf).unwrap();
    (served(kind, gguf).service, folder)
}

/// Continues a prompt by `count` tokens and returns them with their log-probabilities.
fn continued(service: &Service, prompt: &[TokenId], count: u32) -> (Vec<(TokenId, f32)>, u32) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let ticket = service.submit(Job {
        prompt: prompt.into(),
        params: GenerationParams {
            max_tokens: count,
            sampler: SamplerParams { logprobs: Some(0), ..SamplerParams::greedy() },
            ignore_end: true,
            ..GenerationParams::default()
        },
        stops: Arc::default(),
        special: false,
        constraint: None,
        budget: None,
        slot: Some(0),
        on_update: Box::new(move |update| _ = sender.send(update)),
    });
    let _ticket = ticket.unwrap();
    let mut tokens = Vec::new();
    for update in receiver {
        match update {
            Update::Piece(piece) => {
                let report = |report: &doorbell_runtime::serve::TokenReport| {
                    (report.token, report.log_probs.as_ref().unwrap().0)
                };
                tokens.extend(piece.tokens.iter().map(report));
            }
            Update::Finished(finish) => return (tokens, finish.usage.cached_tokens),
            _ => {}
        }
    }
    panic!("the service ended");
}

/// The files of a folder take no more than its limit; one that is replaced does not count.
#[test]
fn saved_prefixes_keep_to_their_limit() {
    let kind = Kind { folder: Some(folder("slots-limit")), parallel: 1, context: 256, ..Kind::default() };
    let (service, folder) = alone(&kind);
    let prompt: Vec<TokenId> = (0..100).map(TokenId).collect();
    let [one, two] = ["one", "two"].map(|name| FileName::new(name).unwrap());
    continued(&service, &prompt, 1);
    let bytes = folder.save(&service, 0, &one).unwrap().bytes;
    let folder = folder.with_limit(bytes * 2 - 1);
    assert_eq!(folder.save(&service, 0, &one).unwrap().bytes, bytes);
    let error = folder.save(&service, 0, &two).unwrap_err();
    assert!(matches!(error, PrefixError::Full { bytes: needed, .. } if needed == bytes), "{error}");
    assert_eq!(std::fs::read_dir(kind.folder.as_ref().unwrap()).unwrap().count(), 1);
    let folder = folder.with_limit(bytes * 2);
    assert_eq!(folder.save(&service, 0, &two).unwrap().bytes, bytes);
}

#[test]
fn damaged_files_are_refused_and_hold_nothing() {
    let kind = Kind { folder: Some(folder("slots-damage")), parallel: 1, context: 256, ..Kind::default() };
    let (service, folder) = alone(&kind);
    let prompt: Vec<TokenId> = (0..100).map(TokenId).collect();
    let good = FileName::new("good").unwrap();
    let bad = FileName::new("bad").unwrap();
    continued(&service, &prompt, 1);
    let saved = folder.save(&service, 0, &good).unwrap();
    assert_eq!(saved.tokens, 96);
    let path = |name: &FileName| kind.folder.as_ref().unwrap().join(name.as_str());
    let bytes = std::fs::read(path(&good)).unwrap();
    assert_eq!(bytes.len() as u64, saved.bytes);
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(path(&bad), bytes).unwrap();
        let error = folder.restore(&service, 0, &bad).err();
        assert!(error.is_some(), "{what} was taken");
        // the counts are updated shortly after the pages
        let free = || service.load().pages_free == service.load().pages;
        assert!(
            (0..10_000).any(|_| free() || {
                std::thread::yield_now();
                false
            }),
            "{what} holds pages"
        );
        error.unwrap()
    };
    for len in 0..bytes.len() {
        refused(&bytes[..len], &format!("a file of {len} bytes"));
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        refused(&changed, &format!("a file with byte {at} changed"));
    }
    refused(&[&bytes[..], &[0]].concat(), "a file with a byte too many");
    // pages in another order
    let (page, first) = (32 * 4 + 8, 64 + 96 * 4 + 8);
    let mut turned = bytes.clone();
    turned[first..first + 2 * page].rotate_left(page);
    assert!(matches!(refused(&turned, "turned pages"), PrefixError::Damaged { part: "pages" }));
    // the same file on a server with another model
    let other = Kind { model: 2, ..kind.clone() };
    let (others, theirs) = alone(&other);
    assert!(matches!(theirs.restore(&others, 0, &good), Err(PrefixError::Model)));
    // or with fewer pages
    let small = Kind { pages: Some(2), ..kind.clone() };
    let (smalls, own) = alone(&small);
    assert!(matches!(own.restore(&smalls, 0, &good), Err(PrefixError::TooLong { needed: 3, pages: 2 })));
    let restored = folder.restore(&service, 0, &good).unwrap();
    assert_eq!(restored.tokens, prompt[..96]);
}

fn service<B: Backend + Send + 'static>(
    model: &'static Model<'static>,
    tokenizer: &'static Tokenizer<'static>,
    backend: impl FnOnce(KvPages) -> B,
) -> Service {
    let config = Config { checkpoints: 2, ..Config::new(256, 1, 32) };
    let backend = backend(config.kv_pages(model));
    Service::start(Engine::new(model, backend, config, &[], HEAP).unwrap(), tokenizer).unwrap()
}

/// Saves in one service and restores in another of the same kind: the answer must be equal to the last bit.
fn goes_round(gguf: &Gguf<'static>, name: &str, start: &dyn Fn() -> Service) -> u64 {
    let path = folder(&format!("slots-{name}"));
    let folder = PrefixFolder::new(&path, gguf).unwrap();
    let file = FileName::new("prefix").unwrap();
    let prompt: Vec<TokenId> = (0..101).map(|token| TokenId(token * 7 % 300)).collect();
    let first = start();
    let (expected, cached) = continued(&first, &prompt, 12);
    assert_eq!(cached, 0);
    let saved = folder.save(&first, 0, &file).unwrap();
    assert_eq!(saved.tokens, 96);
    assert_eq!(saved.bytes, path.join(file.as_str()).metadata().unwrap().len());
    let second = start();
    folder.restore(&second, 0, &file).unwrap();
    assert_eq!(continued(&second, &prompt, 12), (expected, 96), "{name}");
    second.stop();
    saved.bytes
}

/// A model and its tokenizer that live as long as the process.
fn leaked(gguf: &'static Gguf<'static>) -> (&'static Model<'static>, &'static Tokenizer<'static>) {
    let model = Box::leak(Box::new(Model::new(gguf, HEAP).unwrap()));
    (model, Box::leak(Box::new(Tokenizer::new(gguf, HEAP).unwrap())))
}

#[test]
fn backends_continue_what_others_of_their_kind_began() {
    let gguf = file(&Kind::default());
    let (model, tokenizer) = leaked(gguf);
    let cpu = |kv: KvType| {
        move || service(model, tokenizer, |pages| CpuBackend::new(model, pages, kv, 2, HEAP).unwrap())
    };
    for kv in KvType::ALL.into_iter().filter(|kv| kv.check(model).is_ok()) {
        goes_round(gguf, &format!("cpu-{kv}"), &cpu(kv));
        goes_round(gguf, &format!("reference-{kv}"), &|| {
            service(model, tokenizer, |pages| {
                Reference::new(model, pages, kv, Products::Exact, HEAP).unwrap()
            })
        });
    }
    // a file with one KV type does not fit another
    let path = folder("slots-types");
    let folder = PrefixFolder::new(&path, gguf).unwrap();
    let name = FileName::new("prefix").unwrap();
    let prompt: Vec<TokenId> = (0..40).map(TokenId).collect();
    let first = cpu(KvType::F16)();
    continued(&first, &prompt, 1);
    folder.save(&first, 0, &name).unwrap();
    let error = folder.restore(&cpu(KvType::F32)(), 0, &name).unwrap_err();
    assert!(matches!(error, PrefixError::Form { .. }), "{error}");
    assert!(error.to_string().contains("cpu f16"), "{error}");
}

/// Of layers with a window, a file has the pages that the next token sees; of recurrent layers, the state behind the prefix.
#[test]
fn files_carry_windows_and_states() {
    for family in [Family::Gemma3, Family::Qwen3Next, Family::Qwen35] {
        let bytes: &'static [u8] = Box::leak(tiny::f32_model(family, 3).into_boxed_slice());
        let gguf: &'static Gguf<'static> = Box::leak(Box::new(Gguf::parse(bytes, HEAP).unwrap()));
        let (model, tokenizer) = leaked(gguf);
        let kv = KvType::F32;
        let found = [
            goes_round(gguf, &format!("cpu-{}", family.name()), &|| {
                service(model, tokenizer, |pages| CpuBackend::new(model, pages, kv, 2, HEAP).unwrap())
            }),
            goes_round(gguf, &format!("reference-{}", family.name()), &|| {
                let open = |pages| Reference::new(model, pages, kv, Products::Exact, HEAP).unwrap();
                service(model, tokenizer, open)
            }),
        ];
        // three pages of each group, of one with a window of 8 tokens the last one, and the state; each with a checksum
        let pages = |window: Option<u32>| if window.is_some() { 1 } else { 3 };
        let token = |group: &KvGroup| group.bytes_per_token(kv).unwrap() as u64;
        let kept: u64 = model.groups.iter().map(|group| pages(group.window) * 32 * token(group)).sum();
        let state = model.state.map_or(0, |state| state.bytes() as u64);
        // the first pool's pages have entries in any case
        let windows = u64::from(model.groups.iter().any(|group| group.window.is_some()));
        let sums = 8 * (3 + windows + u64::from(model.state.is_some()));
        let expected = 64 + 96 * 4 + 8 + sums + kept + state;
        assert_eq!(found[1], expected, "{}", family.name());
        // the other backend pads heads and values
        assert!(found[0] >= expected, "{}", family.name());
    }
}
