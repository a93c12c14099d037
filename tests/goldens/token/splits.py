"""Pre-tokeniser splits by the regular expressions of the models' tokenizer.json, run by Python's `regex`.

    python splits.py 12 > splits.txt        the committed golden: 12 random strings and the fixed ones for each rule
    python splits.py 100000 > /tmp/many     a developer's run: DOORBELL_SPLITS=/tmp/many cargo test -p doorbell-tests

One line per string: name of the rule, the string's UTF-8 in hexadecimal, the lengths of the pieces in bytes.
Needs: pip install regex. Written with regex 2026.11.19.
"""

import random
import sys
import unicodedata

import regex

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k(digits, letters=r"\p{L}", start=CONTRACTIONS + "|", line_ends=r"[\r\n]*"):
    marks = r"\p{M}" if "M" in letters else ""
    return (start + r"[^\r\n\p{L}\p{N}]?" + f"{letters}+|" + digits
            + r"| ?[^\s\p{L}\p{N}" + marks + "]+" + line_ends + TAIL)


def o200k(digits, tail):
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    return (r"[^\r\n\p{L}\p{N}]?" + f"{upper}*{lower}+{tail}|" + r"[^\r\n\p{L}\p{N}]?" + f"{upper}+{lower}*{tail}|"
            + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)


DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102"
    "\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943"
)
ASCII_PUNCTUATION = r"""!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"""

# The name of one `pre` for each rule, and its expressions in order.
RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [cl100k(r"\p{N}{1,3}")],
    "minicpm5": [r"\p{N}{1,3}", cl100k(r"\p{N}+")],
    "qwen2": [cl100k(r"\p{N}")],
    "qwen35": [cl100k(r"\p{N}", letters=r"[\p{L}\p{M}]")],
    "ufakzeka": [cl100k(r"\p{N}", start="")],
    "seed-coder": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + TAIL],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "laguna": [r"[^\n]+|[\n]+", cl100k(r"\p{N}")],
    "starcoder": [r"\p{N}", GPT2],
    "gpt-4o": [o200k(r"\p{N}{1,3}", CONTRACTIONS + "?")],
    "tekken": [o200k(r"\p{N}", "")],
    "deepseek-llm": ["[\r\n]", r"\s?[" + DEEPSEEK_LETTERS + "]+", r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
                     "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    f"[{ASCII_PUNCTUATION}][A-Za-z]+" + r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    + TAIL],
    # tokenizers' Punctuation is ASCII punctuation and \p{P}.
    "falcon": [r"[\p{P}" + ASCII_PUNCTUATION + "]+", GPT2, "[0-9][0-9][0-9]"],
    "gemma4": [r"[^\n]+|[\n]+"],
}

FIXED = [
    "", " ", "  ", "\n", " \n", "\n ", "\r\n\r\n  x", "\t\tx", "   \u3000 x  ", "'", "''s", "it's 'S 'ſ 'Ve 'lL 'x",
    "I'LL we'll they'RE", "1 12 123 1234 12345 ²³ ⅧⅨ ٣٤٥٦", "x=y+z;//\n\n/*\r\n*/", "HelloWorldFOOBarǅz ʰʰA", "AAAAAa", "中AAA",
    "e\u0301E\u0301 \u0301\u0301 a\u0903", "日本語とカナ、漢字。한국어", "😀\u200d👩‍👩‍👧 \ufe0f", "\u2028\u2029\u0085\u00a0\u1680",
    "a\x1c\x1d\x1e\x1fb \x00\x01", "$100,000.00 (50%)~`^|<>", "!abc ?DEF .ghi", " !\n\n?\r\r//", "ΑΒΓαβγ Жж ßẞ İı",
    "<|im_start|>user\n</s>", "\u200d\u200da \u200d\u200d", "ªº §€ ＡＢ１２！", "".join(" " * n + "x" for n in range(9)),
]
POOL = list("'''   \n\r\tsStTrReEvVmMlLdDaAzZ0199..,,!/_-$<") + list(
    "\u017f\u0301éЖж中か々。！ǅʰ\u0903\u00a0\u2028\u3000٣Ⅷ😀\u200dßİ\u0085\x0b\x1cª§€ऀ한\u4e00\u9fa5")


def pieces(rule, text):
    parts = [text]
    for expression in RULES_COMPILED[rule]:
        following = []
        for part in parts:
            at = 0
            for match in expression.finditer(part):
                if match.start() > at:
                    following.append(part[at:match.start()])
                if match.end() > match.start():
                    following.append(match.group())
                at = match.end()
            if at < len(part):
                following.append(part[at:])
        parts = following
    return parts


def main():
    count = int(sys.argv[1])
    rng = random.Random(1)
    # Only what Unicode 14 had assigned: the versions of the table and of `regex` agree on it.
    assigned = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    for rule in RULES:
        for text in FIXED:
            write(rule, text)
        for _ in range(count):
            length = rng.randint(1, 14) if rng.random() < 0.95 else rng.randint(15, 200)
            write(rule, "".join(
                rng.choice(POOL) if rng.random() < 0.9 else rng.choice(assigned) for _ in range(length)))


def write(rule, text):
    found = pieces(rule, text)
    assert "".join(found) == text
    lengths = ",".join(str(len(piece.encode())) for piece in found)
    print(rule, text.encode().hex() or "-", lengths or "-")


RULES_COMPILED = {name: [regex.compile(e, regex.V0) for e in expressions] for name, expressions in RULES.items()}
if __name__ == "__main__":
    main()
