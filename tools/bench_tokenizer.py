#!/usr/bin/env python3
"""Speed of `plumb bench tokenizer` beside the `tokenizers` package: the same files and documents, in turn.

    tools/bench_tokenizer.py --make FOLDER
    tools/bench_tokenizer.py FOLDER/english.txt FOLDER/mixed.txt --tokenizer A.json --tokenizer B.json

Prints a table for Markdown: MB/s in one thread and two, milliseconds to load a file, and how many times as fast. The package's
rate is that of encode_batch_fast, which leaves offsets out. --make writes the two texts of 10 MB: English from apt's package
descriptions, and sixteen languages from the translations under /usr/share/locale. Needs `pip install tokenizers`.
"""

import argparse
import gettext
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

SIZE = 10_000_000  # bytes of a text
DOCUMENT = 10_000  # bytes, as bench/tokenizer.cpp cuts them
ROUNDS = 3  # the fastest counts, as there
LANGUAGES = "ru zh_CN ja ko ar hi el he th de fr vi uk fa ta bn".split()


def write_text(path, lines):
    data = "\n".join(lines).encode()
    if len(data) < SIZE:
        print(f"{path}: only {len(data)} bytes were found, of {SIZE}", file=sys.stderr)
    with open(path, "wb") as file:
        file.write(data[:SIZE].decode("utf-8", "ignore").encode())


def english(path):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, name))
        subprocess.check_call(["apt-get", "-qq", "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
                               "-o", "Acquire::Languages=en", "-o", "Acquire::GzipIndexes=false", "update"])
        found = max(glob.glob(folder + "/lists/*Translation-en"), key=os.path.getsize)
        with open(found, encoding="utf-8") as file:
            lines = file.read().split("\n")
    key = "Description-en: "
    write_text(path, [line[1:] if line[0] == " " else line[len(key):] for line in lines
                      if line.startswith(key) or (line.startswith(" ") and line != " .")])


def translations(language):
    lines, size = [], 0
    for path in sorted(glob.glob(f"/usr/share/locale/{language}/LC_MESSAGES/*.mo")):
        try:
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog
        except (OSError, ValueError, IndexError):
            continue
        for key, text in catalog.items():
            if key and isinstance(text, str):
                lines.append(text)
                size += len(text.encode()) + 1
        if size > SIZE / len(LANGUAGES):
            break
    return lines


def mixed(path):
    parts = [translations(language) for language in LANGUAGES]
    turns = range(0, max(map(len, parts)), 20)
    write_text(path, [line for at in turns for part in parts for line in part[at:at + 20]])


def documents(path):
    with open(path, "rb") as file:
        data = file.read()
    result, begin = [], 0
    while begin < len(data):
        end = data.find(b"\n", min(begin + DOCUMENT, len(data) - 1)) + 1 or len(data)
        result.append(data[begin:end].decode())
        begin = end
    return result, len(data)


def best(function):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def measure_package(path, texts):
    """In a process of its own, which RAYON_NUM_THREADS has told its threads: seconds to load, MB/s of each text."""
    from tokenizers import Tokenizer
    loading = best(lambda: Tokenizer.from_file(path))
    tokenizer = Tokenizer.from_file(path)
    rates = []
    for text in texts:
        parts, size = documents(text)
        rates.append(size / best(lambda: tokenizer.encode_batch_fast(parts, add_special_tokens=False)) * 1e-6)
    print(json.dumps([1e3 * loading, *rates]))


def package(path, texts, threads):
    output = subprocess.check_output([sys.executable, __file__, "--package", path, *texts],
                                     env={**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"})
    return json.loads(output)


def plumb(program, path, texts):
    command = [program, "bench", "tokenizer", "--json", "--tokenizer", path]
    for text in texts:
        command += ["--text", text]
    return [json.loads(line)["rate"] for line in subprocess.check_output(command, text=True).splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--tokenizer", action="append", default=[])
    parser.add_argument("--plumb", default="build/cli/plumb")
    parser.add_argument("--make", metavar="FOLDER")
    parser.add_argument("--package", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.package:
        return measure_package(options.package, options.texts)
    if options.make:
        os.makedirs(options.make, exist_ok=True)
        english(os.path.join(options.make, "english.txt"))
        return mixed(os.path.join(options.make, "mixed.txt"))

    def cell(ours, theirs, times):
        return f"{ours:.3g} / {theirs:.3g}, {times:.1f} times"

    names = [f"{os.path.basename(text)}, {threads}" for text in options.texts for threads in (1, 2)]
    print("| tokenizer | load, ms | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 2) + "|")
    for path in options.tokenizer:
        ours = plumb(options.plumb, path, options.texts)
        one, two = (package(path, options.texts, threads) for threads in (1, 2))
        theirs = [rate for pair in zip(one[1:], two[1:]) for rate in pair]
        cells = [cell(ours[0], one[0], one[0] / ours[0])] + [cell(a, b, a / b) for a, b in zip(ours[1:], theirs)]
        print(f"| {os.path.basename(path)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
