#!/usr/bin/env python3
"""Records what the `tokenizers` or `sentencepiece` package makes of a file, and checks this project's ids against it.

    tools/compare_tokenizer.py RUN/tokenizer.json --count 1000000 --test build/tests/tokenizer_test
    tools/compare_tokenizer.py NAME.model --count 1000000 --test build/tests/tokenizer_test
    tools/compare_tokenizer.py RUN/tokenizer.json --count 100 --keep FOLDER

Random Unicode text of all planes, combining runs, blanks, contractions, special tokens written out; special tokens parsed and
not parsed. A file whose name holds ".model" is SentencePiece's. With --text FILE its lines are cases too. Needs
`pip install tokenizers sentencepiece`; --transformers also loads the folder there. Broken UTF-8 is refused by encode(): each
text is also cut and damaged at random bytes, and has to be refused at the byte at which Python refuses it.
"""

import argparse
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata

BATCH = 20000  # cases a run of the test

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
        elif kind < 0.7:
            pieces.append(chr(rng.randrange(0x300, 0x370)) * rng.randrange(1, 4))
        elif kind < 0.8:
            pieces.append("".join(rng.choice("abcdefghij") for _ in range(rng.randrange(1, 12))))
        else:
            pieces.append(assigned(rng))
    return "".join(pieces)


class Reference:
    """What the package that a file belongs to says of a text."""

    def __init__(self, path):
        self.model = ".model" in os.path.basename(path)
        if self.model:
            import sentencepiece
            self.package = sentencepiece.SentencePieceProcessor(model_file=path)
            ids = range(self.package.get_piece_size())
            self.added = [self.package.id_to_piece(i) for i in ids if self.package.is_control(i)]
        else:
            from tokenizers import Tokenizer
            self.package = Tokenizer.from_file(path)
            tokens = self.package.get_added_tokens_decoder()
            self.added = [token.content for token in tokens.values()]
            with open(path, encoding="utf-8") as file:
                whole = json.load(file)
            normalizer, by_bytes = self.package.normalizer, '"ByteLevel"' in json.dumps(whole["decoder"])
            # It decodes these to something else than their content (docs/tokenizers.md, "Choices").
            self.changed = {
                id for id, token in tokens.items()
                if (normalizer and token.normalized and normalizer.normalize_str(token.content) != token.content) or
                (by_bytes and any("\u00a1" <= c <= "\u0143" for c in token.content))}
            if "sentencepiece" in whole["model"]:  # written by this project: an unknown piece is decoded as there
                self.changed.add(self.package.token_to_id(whole["model"].get("unk_token", "<unk>")))

    def case(self, text, parse_special):
        if self.model:
            ids = self.package.encode(text)
            return {"text": text, "parse_special": False, "add_special_tokens": False, "ids": ids,
                    "decode": self.package.decode(ids)}
        self.package.encode_special_tokens = not parse_special
        ids = self.package.encode(text).ids
        case = {"text": text, "parse_special": parse_special, "ids": ids, "decode": self.package.decode(ids),
                "decode_with_special": self.package.decode(ids, skip_special_tokens=False)}
        return case | ({"disputed": ["decode"]} if self.changed.intersection(ids) else {})


def damaged(text, rng):
    """The text cut and damaged at random, and where it is no UTF-8 any more; None if it still is."""
    broken = bytearray(text.encode())[:rng.randrange(1, 200)] or bytearray(b"x")
    broken[rng.randrange(len(broken))] = rng.randrange(1, 256)
    try:
        broken.decode()
    except UnicodeDecodeError as fault:
        return {"bytes": base64.b64encode(broken).decode(), "at": fault.start}
    return None


def write_cases(reference, folder, texts, rng):
    cases = [reference.case(text, i % 2 == 1) | {"broken": damaged(text, rng)} for i, text in enumerate(texts)]
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")


def check_transformers(folder):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer
    ours = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    theirs = AutoTokenizer.from_pretrained(folder)
    text = "The quick brown fox, it's 12 o'clock.\n\nÜber 漢字 🦙"
    assert theirs(text)["input_ids"] == ours.encode(text).ids
    print("transformers:", type(theirs).__name__, theirs.special_tokens_map)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", help="a file whose lines are cases too")
    parser.add_argument("--keep", help="write the tokenizer and cases.json to this folder")
    parser.add_argument("--test", help="the tokenizer_test program, run on the cases")
    parser.add_argument("--transformers", action="store_true")
    options = parser.parse_args()

    rng = random.Random(options.seed)
    reference = Reference(options.tokenizer)
    lines = []
    if options.text:
        with open(options.text, encoding="utf-8", newline="") as file:
            lines = file.readlines()
    folder = options.keep or tempfile.mkdtemp(prefix="plumb-tokenizer-")
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(options.tokenizer,
                    os.path.join(folder, "tokenizer.model" if reference.model else "tokenizer.json"))
    if options.transformers:
        check_transformers(os.path.dirname(os.path.abspath(options.tokenizer)))
    code, done = 0, 0
    while done < options.count and code == 0:
        count = min(BATCH, options.count - done) if options.test else options.count
        write_cases(reference, folder, [random_text(rng, reference.added) for _ in range(count)] + lines, rng)
        lines, done = [], done + count
        if options.test:
            name = re.sub("[^0-9A-Za-z]", "_", os.path.basename(os.path.normpath(folder)))
            code = subprocess.call([options.test, "--gtest_brief=1",
                                    f"--gtest_filter=Folder/TokenizerCases.Encoding/{name}"],
                                   env={**os.environ, "PLUMB_TOKENIZERS": folder, "PLUMB_VOCAB": folder})
    print(f"{done} cases recorded" + (", all alike" if options.test and code == 0 else ""))
    if not options.keep:
        shutil.rmtree(folder)
    return code


if __name__ == "__main__":
    sys.exit(main())
