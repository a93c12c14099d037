#!/usr/bin/env python3
"""Compares the program with llama.cpp on one model file: a developer run, not a test.

    compare.py MODEL --peer LOGITS --doorbell DOORBELL [--exact F32MODEL] [--tokens 512]

LOGITS is the oracle of this folder (build.sh). Prints, over English text: mean Kullback-Leibler divergence of our
distribution from llama.cpp's, the share of positions with the same top token, and the logarithm of the ratio of
perplexities; then, for eight prompts, where 64 greedy tokens first differ and how close llama.cpp's two best logits
were there.

Rounding activations to 8 bits is noise, and any change of summation order makes it independent noise: llama.cpp differs
from itself by some 5e-3 when flash attention is switched. So F32MODEL, the same weights in F32
(`llama-quantize --allow-requantize MODEL F32MODEL F32`), is the better judge: with it everything is compared with what
llama.cpp computes from that, llama.cpp's own run of MODEL included. Needs Python 3.10 and numpy.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).parent


def output(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


class Peer:
    def __init__(self, binary, model, threads):
        self.command, self.options = [binary, model], ["--threads", str(threads)]

    def logits(self, tokens, path, *options):
        output(self.command + ["score", path, *self.options, *options], " ".join(map(str, tokens)))

    def greedy(self, prompts, count):
        """Per prompt the generated ids and the gaps between the two best logits."""
        lines = "\n".join(" ".join(map(str, prompt)) for prompt in prompts) + "\n"
        found = output(self.command + ["greedy", str(count), *self.options, "--flash", "0"], lines).splitlines()
        pairs = [[pair.split(":") for pair in line.split()] for line in found]
        return [([int(token) for token, _ in line], [float(gap) for _, gap in line]) for line in pairs]


class Doorbell:
    def __init__(self, binary, model, threads):
        self.binary, self.model, self.threads = binary, model, str(threads)

    def json(self, verb, *arguments, text=None):
        return json.loads(output([self.binary, verb, self.model, *arguments, "--json"], text))

    def tokens(self, text):
        return self.json("tokenize", text=text)["tokens"]

    def logits(self, tokens, path):
        ids = ",".join(map(str, tokens))
        self.json("score", "--tokens", ids, "--logits", path)

    def greedy(self, prompt, count):
        return self.json("run", "--raw", "-p", prompt, "-n", str(count), "--temp", "0", "-t", self.threads)["tokens"]


def log_softmax(row):
    row = row.astype(np.float64)
    row = row - row.max()
    return row - np.log(np.exp(row).sum())


def compare(name, reference, other, tokens):
    """Prints the three figures for two files of logits."""
    shape = (len(tokens), -1)
    reference, other = (np.memmap(path, dtype="<f4", mode="r").reshape(shape) for path in (reference, other))
    divergence, same, difference = [], [], []
    for position, (p, q) in enumerate(zip(reference, other)):
        same.append(p.argmax() == q.argmax())
        p, q = log_softmax(p), log_softmax(q)
        divergence.append(np.sum(np.exp(p) * (p - q)))
        if position + 1 < len(tokens):
            difference.append(p[tokens[position + 1]] - q[tokens[position + 1]])
    print(f"{name}: mean KLD {np.mean(divergence):.2e} (largest {np.max(divergence):.2e}), "
          f"same top {100 * np.mean(same):.2f} %, ln PPL ratio {np.mean(difference):+.2e}")


def compare_greedy(peer, doorbell, count):
    prompts = (HERE / "prompts.txt").read_text().splitlines()
    found = peer.greedy([doorbell.tokens(prompt) for prompt in prompts], count)
    for prompt, (want, gaps) in zip(prompts, found):
        got = doorbell.greedy(prompt, count)
        length = min(len(got), len(want))
        first = next((i for i in range(length) if got[i] != want[i]), None)
        verdict = f"equal for {length}" if first is None else f"differs at {first}, gap {gaps[first]:.4f}"
        print(f"{prompt!r}: {verdict}")


def main():
    parser = argparse.ArgumentParser(description="Compares the program with llama.cpp on one model file.")
    parser.add_argument("model")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--doorbell", required=True)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--generate", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--exact", help="the same weights in F32")
    arguments = parser.parse_args()
    doorbell = Doorbell(arguments.doorbell, arguments.model, arguments.threads)
    peer = Peer(arguments.peer, arguments.model, arguments.threads)
    judge = Peer(arguments.peer, arguments.exact or arguments.model, arguments.threads)
    tokens = doorbell.tokens((HERE / "text.txt").read_text())[:arguments.tokens]
    print(f"{arguments.model}: {len(tokens)} tokens, against {judge.command[1]}")
    with tempfile.TemporaryDirectory() as folder:
        reference, other = f"{folder}/reference.f32", f"{folder}/other.f32"
        judge.logits(tokens, reference, "--flash", "0")
        doorbell.logits(tokens, other)
        compare("doorbell", reference, other, tokens)
        for name, options in [("", "0 1"), (", flash attention", "1 1"), (", no repack", "0 0")]:
            flash, repack = options.split()
            peer.logits(tokens, other, "--flash", flash, "--repack", repack)
            compare("llama.cpp" + name, reference, other, tokens)
    compare_greedy(judge, doorbell, arguments.generate)


if __name__ == "__main__":
    main()
