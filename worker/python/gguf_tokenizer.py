"""A model's tokenizer in the form of GGUF: tokens, merges, special tokens, chat template, and llama.cpp's name for its splitting."""

import json
import os
import re
import tempfile
from pathlib import Path

from exporting import InputError, reading

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",)
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",)
# A word with capitals only at its beginning, then a word of capitals.
WORD = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
CAPITALS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
TEKKEN = (WORD + "|" + CAPITALS + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",)
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (WORD + ENDING + "|" + CAPITALS + ENDING + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",)
MINICPM5 = (
    r"\p{N}{1,3}",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
SEED_CODER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",)
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
)
HAN = r"[一-龥ࠀ-一가-퟿]+"
CASED = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ"
    r"-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)
DIGITS, WORDS = "Digits", "ByteLevel"  # steps that are no regular expression: each digit alone; the words of GPT-2
DEEPSEEK_LLM = (r"[\r\n]", CASED, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN, DIGITS)
DEEPSEEK_CODER = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, DIGITS)

# Byte-level BPE: what splits a text before the merges, by llama.cpp's name for it.
SPLITS = {
    (WORDS,): "gpt-2",
    (DIGITS, WORDS): "smollm",
    LLAMA3: "llama-bpe",
    QWEN2: "qwen2",
    TEKKEN: "tekken",
    O200K: "gpt-4o",
    MINICPM5: "minicpm5",
    SEED_CODER: "seed-coder",
    DEEPSEEK_V3: "deepseek-v3",
    DEEPSEEK_LLM: "deepseek-llm",
    DEEPSEEK_CODER: "deepseek-coder",
}
# Names where llama.cpp must merge a word's parts although the whole word is in the vocabulary (ignore_merges is false).
SPLITS_WITH_MERGES = {LLAMA3: "dbrx"}
MARK = "▁"  # SentencePiece's for a space


def steps_of(pre_tokenizer):
    """Returns the steps of a byte-level pre-tokenizer as a key of SPLITS; () if they have no name here."""
    steps = pre_tokenizer["pretokenizers"] if pre_tokenizer["type"] == "Sequence" else [pre_tokenizer]
    *before, last = steps
    if last["type"] != "ByteLevel" or last.get("add_prefix_space"):
        return ()
    found = []
    for step in before:
        if step["type"] == "Digits" and step["individual_digits"]:
            found.append(DIGITS)
        elif step["type"] == "Split" and (step["behavior"], step["invert"]) in (("Isolated", False), ("Removed", True)):
            # A line break may stand in an expression as it is.
            found.append(step["pattern"].get("Regex", "").replace("\r", r"\r").replace("\n", r"\n"))
        else:
            return ()
    return (*found, WORDS) if last.get("use_regex", True) else tuple(found)


def split_of(tokenizer, file):
    """llama.cpp's name for how the tokenizer splits a text."""
    steps = steps_of(tokenizer.get("pre_tokenizer") or {"type": "none"})
    names = SPLITS if tokenizer["model"].get("ignore_merges") else SPLITS | SPLITS_WITH_MERGES
    if steps not in names:
        raise InputError(f"{file}: this exporter has no name for how this tokenizer splits a text (pre_tokenizer); "
                         f"it has those of {', '.join(sorted(SPLITS.values()))}")  # fmt: skip
    return names[steps]


def add_tokens(writer, tokenizer, vocabulary, gguf):
    """Tokens by id. Ids that the tokenizer does not use are padding of the embedding."""
    kind = gguf.TokenType
    tokens = [f"[PAD{number}]" for number in range(vocabulary)]
    types = [kind.UNUSED] * vocabulary

    def require_place(number):
        if not 0 <= number < vocabulary:
            raise InputError(f"tokenizer.json: token {number} is not in a vocabulary of {vocabulary}")

    for text, number in tokenizer["model"]["vocab"].items():
        require_place(number)
        tokens[number], types[number] = text, kind.NORMAL
        if tokenizer["model"].get("byte_fallback") and re.fullmatch(r"<0x[0-9A-F]{2}>", text):
            types[number] = kind.BYTE
    for added in tokenizer.get("added_tokens", []):
        require_place(added["id"])
        tokens[added["id"]] = added["content"]
        types[added["id"]] = kind.CONTROL if added["special"] else kind.USER_DEFINED
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    return tokens


def special_tokens(model, gguf, loads_merges):
    """Special tokens, merges and chat template. gguf looks for them in a folder: this one has the described files alone, and
    the described settings as config.json."""
    with tempfile.TemporaryDirectory() as folder:
        for name in model.companions:
            os.symlink(os.path.abspath(model.directory / name), Path(folder) / name)
        (Path(folder) / "config.json").write_text(json.dumps(model.settings), encoding="utf-8")
        with reading(model.directory / "tokenizer_config.json", "a file of settings"):
            return gguf.SpecialVocab(folder, load_merges=loads_merges, n_vocab=model.config["vocab_size"])


def steps_within(step, parts):
    """The steps of a normalizer or a pre-tokenizer. parts: what a sequence calls its own."""
    if not step:
        return []
    return [inner for part in step[parts] for inner in steps_within(part, parts)] if step["type"] == "Sequence" else [step]


def normalizer_steps(tokenizer):
    return steps_within(tokenizer.get("normalizer"), "normalizers")


def marks_of(tokenizer):
    """Steps of the normalizer that put SentencePiece's mark for spaces."""
    marks = [{"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]
    return [step for step in normalizer_steps(tokenizer) if step in marks]


def refuse_changes_of_text(tokenizer, file, known=()):
    """llama.cpp does not normalize a text. One in NFC, as nearly all are, has no need of that step."""
    for step in normalizer_steps(tokenizer):
        if step["type"] != "NFC" and step not in known:
            raise InputError(f"{file}: the normalizer {step['type']} changes a text before it is split, which llama.cpp does not do")


def metaspaces_of(tokenizer):
    """Steps of the pre-tokenizer that put SentencePiece's mark for spaces."""
    steps = steps_within(tokenizer.get("pre_tokenizer"), "pretokenizers")
    return [step for step in steps if step["type"] == "Metaspace" and step["replacement"] == MARK]


def begins_with_space(tokenizer):
    """Returns true if a space is put before each text."""
    prepends = any(step["type"] == "Prepend" for step in marks_of(tokenizer))
    return prepends or any(step.get("prepend_scheme", "always") != "never" for step in metaspaces_of(tokenizer))


def require_marked_spaces(tokenizer, file):
    """llama.cpp puts the mark for each space itself."""
    refuse_changes_of_text(tokenizer, file, marks_of(tokenizer))
    if not metaspaces_of(tokenizer) and all(step["type"] != "Replace" for step in marks_of(tokenizer)):
        raise InputError(f"{file}: this tokenizer does not write a space as {MARK} (normalizer, pre_tokenizer), and llama.cpp does")


def add_model(writer, model, tokenizer, gguf):
    vocabulary, file = model.config["vocab_size"], model.directory / "tokenizer.json"
    if tokenizer["model"].get("byte_fallback"):  # SentencePiece: the pair of highest score is merged first
        require_marked_spaces(tokenizer, file)
        writer.add_tokenizer_model("llama")
        tokens = add_tokens(writer, tokenizer, vocabulary, gguf)
        ranks = {}
        for rank, pair in enumerate(tokenizer["model"]["merges"]):
            ranks.setdefault("".join(pair.split(" ", 1) if isinstance(pair, str) else pair), rank)
        writer.add_token_scores([-float(ranks.get(token, len(ranks))) for token in tokens])
        writer.add_add_space_prefix(begins_with_space(tokenizer))
        special = special_tokens(model, gguf, loads_merges=False)
    else:
        split = split_of(tokenizer, file)
        refuse_changes_of_text(tokenizer, file)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(split)
        add_tokens(writer, tokenizer, vocabulary, gguf)
        special = special_tokens(model, gguf, loads_merges=True)
    # llama.cpp begins a text with the first special token for some tokenizers, unless the file says that it must not.
    special.add_special_token.setdefault("bos", False)
    special.add_to_gguf(writer, quiet=True)


def add_tokenizer(writer, model, gguf):
    file = model.directory / "tokenizer.json"
    if not file.exists():
        raise InputError(f"{model.directory} has no tokenizer.json, which a GGUF file holds: copy that of the dense model there")
    tokenizer = model.read_json("tokenizer.json")
    with reading(file, "a tokenizer"):
        if (kind := tokenizer["model"]["type"]) != "BPE":
            raise InputError(f"{file}: a {kind} tokenizer is not exported; one of BPE is")
        add_model(writer, model, tokenizer, gguf)
