#!/usr/bin/env python3
"""Trains a tokenizer with plumb and with the `tokenizers` or `sentencepiece` package on the same text, in one run.

    tools/compare_training.py TEXT --kind bpe --vocab-size 32000 --plumb build/cli/plumb --threads 2
    tools/compare_training.py TEXT --kind unigram --vocab-size 8000

Prints seconds, processor seconds (which other work on the machine changes less), the largest memory and, for bpe and
wordpiece, whether merges and vocabulary are the same; for unigram, the characters a token of either and whether the
`tokenizers` package reads the file to equal ids.
Needs `pip install tokenizers sentencepiece`.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time

SPECIALS = {"bpe": ["<|endoftext|>", "<|pad|>", "<|mask|>"], "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]}


def train_package(args, out):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    with open(args.text, encoding="utf-8", newline="") as file:
        lines = list(file) if args.lines else [file.read()]
    options = dict(vocab_size=args.vocab_size, min_frequency=2, special_tokens=SPECIALS[args.kind], show_progress=False)
    if args.kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options)
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(**options)
    if args.files:
        del lines
        tokenizer.train([args.text], trainer)
    else:
        tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(out)


def train_sentencepiece(args, out):
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        input=args.text, model_prefix=out, vocab_size=args.vocab_size, model_type="unigram", character_coverage=1.0,
        normalization_rule_name="nfkc", max_sentence_length=1 << 20, minloglevel=2, num_threads=args.threads,
        split_by_unicode_script=False, split_by_number=False)


def train_plumb(args, out):
    subprocess.run([args.plumb, "--threads", str(args.threads), "tokenizer", "train", args.text, "--kind", args.kind,
                    "--vocab-size", str(args.vocab_size), "--out", out], check=True, stderr=subprocess.DEVNULL)


def measured(train, args, out, queue):
    start = time.time()
    train(args, out)
    seconds = time.time() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    queue.put((seconds, sum(u.ru_utime + u.ru_stime for u in used), max(u.ru_maxrss for u in used) / 1024))


def run(name, train, args, out):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=measured, args=(train, args, out, queue))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{name} failed")
    seconds, processor, memory = queue.get()
    print(f"{name:14} {seconds:8.1f} s {processor:8.1f} s of processor {memory:8.0f} MB at most", flush=True)


def compare_pairs(ours, theirs):
    with open(ours, encoding="utf-8") as a, open(theirs, encoding="utf-8") as b:
        one, other = json.load(a)["model"], json.load(b)["model"]
    if "merges" in one:
        left, right = ([tuple(m) for m in model["merges"]] for model in (one, other))
        right = list(dict.fromkeys(right))
        same = next((i for i, (x, y) in enumerate(zip(left, right)) if x != y), min(len(left), len(right)))
        print(f"merges: {len(left)} and {len(right)}, the first {same} equal")
    print(f"tokens that only one has: {len(set(one['vocab']) ^ set(other['vocab']))} of {len(one['vocab'])}")


def compare_unigram(args, ours, theirs):
    import sentencepiece
    from tokenizers import Tokenizer
    with open(args.text, encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n")[:50000] if line.strip()]
    processor = sentencepiece.SentencePieceProcessor(model_file=theirs + ".model")
    ids = [e.ids for e in Tokenizer.from_file(ours).encode_batch(lines)]
    characters = sum(map(len, lines))
    print(f"characters a token: plumb {characters / sum(map(len, ids)):.3f}, "
          f"sentencepiece {characters / sum(len(processor.encode(line)) for line in lines):.3f}")
    result = subprocess.run([args.plumb, "tokenizer", "encode", ours, "--from-json"], capture_output=True, text=True,
                            check=True, input="\n".join(map(json.dumps, lines)))
    other = sum(list(map(int, line.split())) != expected for line, expected in zip(result.stdout.split("\n"), ids))
    print(f"lines to which the tokenizers package gives other ids: {other} of {len(lines)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--kind", choices=["bpe", "wordpiece", "unigram"], default="bpe")
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plumb", default="build/cli/plumb")
    parser.add_argument("--files", action="store_true", help="the package reads the file itself, line by line")
    parser.add_argument("--lines", action="store_true", help="the package is given lines, not one text")
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = folder + "/plumb.json", folder + "/other.json"
        run("plumb", train_plumb, args, ours)
        if args.kind == "unigram":
            run("sentencepiece", train_sentencepiece, args, theirs)
            compare_unigram(args, ours, theirs)
        else:
            run("tokenizers", train_package, args, theirs)
            compare_pairs(ours, theirs)


if __name__ == "__main__":
    main()
