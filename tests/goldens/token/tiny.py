"""Three small tokenizers trained on the sentences below, and what their makers' libraries encode with them.

    python tiny.py        writes bytes.txt (byte-level BPE), characters.txt (BPE over characters), spm.txt

Lines of the files, strings as UTF-8 in hexadecimal, `-` for nothing:
    token TYPE TEXT [SCORE]             by ascending id; types as in GGUF
    merge LEFT RIGHT                    by ascending rank
    key NAME VALUE                      metadata, numbers and truth values
    encode PRE PARSE TEXT IDS           PARSE: whether markup becomes tokens; no BOS
    decode SKIP IDS TEXT                SKIP: whether control tokens are left out
Needs: pip install tokenizers sentencepiece regex. Written with tokenizers 0.23.3, sentencepiece 0.2.3.
"""

import io
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from splits import FIXED, POOL, RULES

SENTENCES = """
A doorbell rings once, and the processor behind it wakes and looks at its queue.
The queue holds packets; each packet names a kernel, its arguments and the grid to run it on.
When the last wave has ended, a signal counts down, and whoever waits for it goes on.
Numbers such as 1, 23, 456 and 7890 are cut into digits before anything else happens to them.
It's not what we'd have chosen, but they're right: don't guess, measure, and they'll believe you.
Der Zug nach Köln fährt um 7:45 Uhr ab; wer zu spät kommt, wartet zwanzig Minuten auf den nächsten.
Les fenêtres étaient ouvertes, et l'odeur du café montait jusqu'à la chambre du troisième étage.
Старый мост через реку закрыли зимой, а новый так и не успели построить до весны.
山の上の小さな家に、猫が三匹と犬が一匹、静かに暮らしていた。
桥下的水很清，孩子们夏天常在那里游泳。
    if packet.is_valid() and queue.len() < limit:\n        queue.push(packet)\n    else:\n        return None
fn main() { let x = vec![1, 2, 3]; for y in &x { println!("{y}"); } }
HelloWorld, helloWorld, HELLO_WORLD and hello-world are four ways to write the same two words.
The the the the quick quick brown foxes jumped over over the the lazy dogs, again and again.
""".strip().replace("\\n", "\n").split("\n")

CONTROL = ["<|end|>", "<|turn|>", "<|turn|>system"]
USER_DEFINED = ["<call>", "</call>"]
TEXTS = ["zebra, a zebra zebras"] + FIXED + SENTENCES + [
    "the<|end|>queue <|turn|>system<|turn|> x<call> y </call>z<|en|end|>",
    "<|end|>", "<call><call>", "<|turn|>systems", "a <|end|> b\n<|end|>\n", "<|turn|", "\u2581a \u2581\u2581 b", "Ġa Ċb",
    "packet" * 30, "a" * 100, " " * 65, "\n" * 33, "é" * 17, "中" * 21, "\u0000\u0001\u007f\u0080",
]
RNG = random.Random(7)
TEXTS += ["".join(RNG.choice(POOL) for _ in range(RNG.randint(1, 24))) for _ in range(60)]
TEXTS += [" ".join(RNG.choice(" ".join(SENTENCES).split()) for _ in range(8)) for _ in range(20)]


def hexed(text):
    return text.encode().hex() or "-"


def numbers(ids):
    return ",".join(map(str, ids)) or "-"


def write_vocabulary(out, tokenizer, merges, kind):
    for text, _ in sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1]):
        out.write(f"token {kind(text)} {hexed(text)}\n")
    for left, right in merges:
        out.write(f"merge {hexed(left)} {hexed(right)}\n")


def write_cases(out, tokenizer, pre, texts):
    for text in texts:
        for parse in (False, True):
            tokenizer.encode_special_tokens = not parse
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            if parse or "|" in text:
                out.write(f"encode {pre} {int(parse)} {hexed(text)} {numbers(ids)}\n")
        if pre == "qwen2" or pre == "gemma4":
            for skip in (False, True):
                decoded = tokenizer.decode(ids, skip_special_tokens=skip)
                out.write(f"decode {int(skip)} {numbers(ids)} {hexed(decoded)}\n")


def add_markup(tokenizer):
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in CONTROL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in USER_DEFINED])


def kind(text):
    return 3 if text in CONTROL else 4 if text in USER_DEFINED else 6 if text.startswith("<0x") else 1


def trained(tokenizer, trainer):
    """The tokenizer's vocabulary and merges after training on the sentences."""
    import json
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def byte_level():
    def cut(pre):
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in RULES[pre]]
        return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    teacher = Tokenizer(models.BPE())
    teacher.pre_tokenizer = cut("qwen2")
    vocabulary, merges = trained(teacher, trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    # A word of its own that no merges make: only a rule that looks for whole words first finds it.
    assert "Ġzebra" not in vocabulary and len(vocabulary) == max(vocabulary.values()) + 1
    vocabulary["Ġzebra"] = len(vocabulary)
    with open("bytes.txt", "w") as out:
        for pre in ["qwen2", "llama-bpe", "gpt-2", "qwen35", "gpt-4o", "tekken", "starcoder", "deepseek-v3"]:
            whole = pre in ("llama-bpe", "tekken")
            tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=whole))
            tokenizer.pre_tokenizer = cut(pre)
            tokenizer.decoder = decoders.ByteLevel()
            add_markup(tokenizer)
            if pre == "qwen2":
                write_vocabulary(out, tokenizer, merges, kind)
            write_cases(out, tokenizer, pre, TEXTS if pre == "qwen2" else TEXTS[::3])


def characters():
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]

    def dressed(model):
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(RULES["gemma4"][0]), "isolated")
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        return tokenizer

    vocabulary, merges = trained(dressed(models.BPE()), trainers.BpeTrainer(
        vocab_size=520, special_tokens=bytes_of, max_token_length=12, show_progress=False))
    tokenizer = dressed(models.BPE(vocabulary, merges, byte_fallback=True))
    add_markup(tokenizer)
    with open("characters.txt", "w") as out:
        write_vocabulary(out, tokenizer, merges, kind)
        write_cases(out, tokenizer, "gemma4", TEXTS)


def spm():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=model, model_type="bpe", vocab_size=640,
        byte_fallback=True, character_coverage=0.98, normalization_rule_name="identity",
        remove_extra_whitespaces=False, control_symbols=CONTROL, allow_whitespace_only_pieces=True,
        split_by_unicode_script=False, split_by_number=False, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with open("spm.txt", "w") as out:
        for id in range(processor.get_piece_size()):
            kind = (2 if processor.is_unknown(id) else 3 if processor.is_control(id)
                    else 6 if processor.is_byte(id) else 5 if processor.is_unused(id) else 1)
            out.write(f"token {kind} {hexed(processor.id_to_piece(id))} {processor.get_score(id):.9g}\n")
        out.write(f"key add_space_prefix 1\nkey bos_token_id {processor.bos_id()}\n")
        out.write(f"key eos_token_id {processor.eos_id()}\nkey unknown_token_id {processor.unk_id()}\n")
        for text in TEXTS:
            if "\x00" in text or "\u2581" in text:
                continue
            ids = processor.encode(text)
            out.write(f"encode - 0 {hexed(text)} {numbers(ids)}\n")
            out.write(f"decode 0 {numbers(ids)} {hexed(processor.decode(ids))}\n")
        # Markup is not SentencePiece's business: each text between two tokens is encoded as a text of its own.
        for parts in [["<|end|>"], ["the", "<|end|>", "queue"], ["<|turn|>system", " queue", "<|end|>", "\n"],
                      ["<s>", " the", "</s>", "  the"]]:
            ids = []
            for part in parts:
                ids += [processor.piece_to_id(part)] if part.startswith("<") else processor.encode(part)
            out.write(f"encode - 1 {hexed(''.join(parts))} {numbers(ids)}\n")


byte_level()
characters()
spm()
