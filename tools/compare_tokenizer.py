#!/usr/bin/env python3
"""Records what the `tokenizers` package makes of a tokenizer.json, and checks this project's ids against it.

    tools/compare_tokenizer.py RUN/tokenizer.json --cases 20000 --test build/tests/tokenizer_test
    tools/compare_tokenizer.py RUN/tokenizer.json --cases 100 --keep FOLDER

Random Unicode text of all planes, blanks, contractions, special tokens written out; special tokens parsed and not parsed.
With --text FILE its lines are cases too. Needs `pip install tokenizers`; --transformers also loads the folder there.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

PARTS = [" ", "  ", "\n", "\n\n", "\r\n", "\t", "'s", "'LL", "n't", "'re", "the", " and", "é", "e\u0301", "\u00a0", "\u2028",
         "\u3000", "\u1680", "\u180e", "\u0085", "\u200b", "0", "42", "½", "٣", "!?", "...", "_", "🦙", "👨‍👩‍👧", "漢字", "こんにちは",
         "Привет", "مرحبا", "\u0000", "\x1c", "\ufeff", "\ufffd"]


def assigned(rng):
    """A character that Unicode 14, the oldest table in use here, knows."""
    while True:
        c = chr(rng.randrange(0x110000))
        if unicodedata.category(c) not in ("Cn", "Cs") and unicodedata.unidata_version >= "14":
            return c


def random_text(rng, specials):
    pieces = []
    for _ in range(rng.randrange(30)):
        kind = rng.random()
        if kind < 0.6:
            pieces.append(rng.choice(PARTS))
        elif kind < 0.65 and specials:
            pieces.append(rng.choice(specials))
        elif kind < 0.8:
            pieces.append("".join(rng.choice("abcdefghij") for _ in range(rng.randrange(1, 12))))
        else:
            pieces.append(assigned(rng))
    return "".join(pieces)


def record(path, texts):
    tokenizer = Tokenizer.from_file(path)
    cases = []
    for i, text in enumerate(texts):
        tokenizer.encode_special_tokens = i % 2 == 0
        ids = tokenizer.encode(text).ids
        cases.append({"text": text, "parse_special": i % 2 == 1, "ids": ids, "decode": tokenizer.decode(ids),
                      "decode_with_special": tokenizer.decode(ids, skip_special_tokens=False)})
    return cases


def check_transformers(folder):
    from transformers import AutoTokenizer
    ours = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    theirs = AutoTokenizer.from_pretrained(folder)
    text = "The quick brown fox, it's 12 o'clock.\n\nÜber 漢字 🦙"
    assert theirs(text)["input_ids"] == ours.encode(text).ids
    print("transformers:", type(theirs).__name__, theirs.special_tokens_map)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", help="a file whose lines are cases too")
    parser.add_argument("--keep", help="write tokenizer.json and cases.json to this folder")
    parser.add_argument("--test", help="the tokenizer_test program, run on the cases")
    parser.add_argument("--transformers", action="store_true")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    added = [token.content for token in Tokenizer.from_file(options.tokenizer).get_added_tokens_decoder().values()]
    texts = [random_text(rng, added) for _ in range(options.cases)]
    if options.text:
        with open(options.text, encoding="utf-8", newline="") as file:
            texts += file.readlines()
    folder = options.keep or tempfile.mkdtemp(prefix="plumb-tokenizer-")
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(options.tokenizer, os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        cases = record(options.tokenizer, texts)
        file.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases recorded")
    if options.transformers:
        check_transformers(os.path.dirname(os.path.abspath(options.tokenizer)))
    code = 0
    if options.test:
        code = subprocess.call([options.test],
                               env={**os.environ, "PLUMB_TOKENIZERS": folder})
    if not options.keep:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
