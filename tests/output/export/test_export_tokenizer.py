"""Tests of the tokenizers in GGUF files: llama.cpp's name for each splitting that published tokenizers have, and what its loader
requires."""

import hashlib
import json
import sys

import pytest
from exports import VOCABULARY, change_json, export, make_model, tokenizer_document
from gguf import GGUFReader, TokenType
from narrowing import CODE
from tokenizers import Tokenizer
from transformers import AutoTokenizer

sys.path.append(str(CODE))
from gguf_tokenizer import CASED  # noqa: E402


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


DIGITS = {"type": "Digits", "individual_digits": True}
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?"
         r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")  # fmt: skip
SEED = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|"
            "\\s*[\r\n]+|\\s+(?!\\S)|\\s+")  # fmt: skip
MINICPM = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# For each name: a published tokenizer, the steps in its tokenizer.json, and ignore_merges.
PUBLISHED = {
    "gpt-2": ("gpt2", [byte_level(True)], False),
    "smollm": ("SmolLM2", [DIGITS, byte_level(True)], False),
    "llama-bpe": ("Llama 3.1, 3.2", [split(CL100K), byte_level(False)], True),
    "dbrx": ("phi-4", [split(CL100K, "Removed", True), byte_level(False)], False),
    "qwen2": ("Qwen 2, 2.5, 3, DeepSeek-R1-Distill-Qwen", [split(QWEN), byte_level(False)], False),
    "tekken": ("Mistral-NeMo, Ministral", [split(TEKKEN), byte_level(False)], True),
    "gpt-4o": ("Phi-4-mini", [split(O200K, "Removed", True), byte_level(False)], False),
    "seed-coder": ("Seed-Coder", [split(SEED), byte_level(False)], False),
    "minicpm5": ("MiniCPM5", [split(r"\p{N}{1,3}"), split(MINICPM), byte_level(False)], True),
    "deepseek-v3": ("DeepSeek V3", [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK),
                                    byte_level(False)], False),
    "deepseek-coder": ("deepseek-coder", [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(HAN), DIGITS, byte_level(False)],
                       False),
}  # fmt: skip
READ_BACK = ("gpt-2", "llama-bpe", "dbrx", "qwen2", "tekken", "gpt-4o")  # transformers knows the splitting of these
TEXT = "It's 2024:\r\n\n  def HelloWORLD(x): return x  # 12345 %\t日本語 ÄRGER's /path/\n\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("export") / "model"
    make_model(directory, "llama")
    return directory


def with_steps(model, steps, normalizer=None, **settings):
    """Gives the model a tokenizer with these steps."""
    file = model / "tokenizer.json"
    content = tokenizer_document() | {"normalizer": normalizer}
    content["pre_tokenizer"] = steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}
    content["model"] |= settings
    file.write_text(json.dumps(content))
    return Tokenizer.from_file(str(file))


def fields_of(file):
    return {key: field.contents() for key, field in GGUFReader(file).fields.items() if key.startswith("tokenizer.")}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_splitting_has_the_name_that_llama_cpp_gives_it(name, model, tmp_path):
    _, steps, ignore_merges = PUBLISHED[name]
    source = with_steps(model, steps, ignore_merges=ignore_merges)
    export(model, tmp_path / "model.gguf")
    fields = fields_of(tmp_path / "model.gguf")
    assert (fields["tokenizer.ggml.pre"], fields["tokenizer.ggml.model"]) == (name, "gpt2")
    if name in READ_BACK:
        back = AutoTokenizer.from_pretrained(tmp_path, gguf_file="model.gguf")
        expected = source.encode(TEXT, add_special_tokens=False).ids
        assert back(TEXT, add_special_tokens=False).input_ids == expected


def test_deepseek_llm_is_known_by_its_cased_letters(model, tmp_path):
    """Some letters of the expression are not in the normal form of Unicode, and an editor may change them."""
    letters = [CASED, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN]
    assert hashlib.sha256(CASED.encode()).hexdigest() == "38fd0b5eb7e66ecf05e5e89dd0272208b64a6d60fa009c4ea1be70e7b7e739d5"
    with_steps(model, [split("[\r\n]"), *map(split, letters), DIGITS, byte_level(False)])
    export(model, tmp_path / "model.gguf")
    assert fields_of(tmp_path / "model.gguf")["tokenizer.ggml.pre"] == "deepseek-llm"


def test_the_file_has_what_llama_cpp_requires(model, tmp_path):
    with_steps(model, [split(TEKKEN), byte_level(False)], ignore_merges=True)
    export(model, tmp_path / "model.gguf")
    fields = fields_of(tmp_path / "model.gguf")
    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    assert len(tokens) == len(types) == len(set(tokens)) == VOCABULARY and all(tokens)
    content = json.loads((model / "tokenizer.json").read_text())
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in content["model"]["merges"]]
    assert fields["tokenizer.ggml.merges"] == merges
    for added in content["added_tokens"]:
        assert tokens[added["id"]] == added["content"] and types[added["id"]] == TokenType.CONTROL
    assert (fields["tokenizer.ggml.bos_token_id"], fields["tokenizer.ggml.eos_token_id"]) == (0, 1)
    # llama.cpp would begin each text with a token that this tokenizer does not add.
    assert fields["tokenizer.ggml.add_bos_token"] is False


def test_other_splittings_are_refused_in_the_name_of_the_exporter(model, tmp_path):
    refused = [
        [{"type": "Whitespace"}],
        [split(QWEN, "MergedWithPrevious"), byte_level(False)],
        [split(QWEN), byte_level(True)],
        [split(QWEN + "|x"), byte_level(False)],
        [{"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False}, byte_level(False)],
        [DIGITS | {"individual_digits": False}, byte_level(True)],
        [byte_level(True) | {"add_prefix_space": True}],
    ]
    for steps in refused:
        with_steps(model, steps)
        refusal = export(model, tmp_path / "model.gguf", exit_code=65)
        assert "tokenizer.json: this exporter has no name for how this tokenizer splits a text" in refusal
        assert "deepseek-llm, deepseek-v3, gpt-2, gpt-4o, llama-bpe" in refusal


def test_a_model_without_a_tokenizer_is_refused_with_what_would_help(model, tmp_path):
    (model / "tokenizer.json").unlink()
    refusal = export(model, tmp_path / "model.gguf", exit_code=65)
    assert f"{model} has no tokenizer.json, which a GGUF file holds: copy that of the dense model there" in refusal


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.json", "special_tokens_map.json"])
def test_settings_beside_the_tokenizer_are_named_if_they_are_wrong(name, tmp_path):
    make_model(tmp_path / "model", "llama")
    (tmp_path / "model" / name).write_text("[3]")
    assert f"{name}: must be a JSON object, not array" in export(tmp_path / "model", tmp_path / "model.gguf", exit_code=65)


MARKED = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
PIECES = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
PIECES |= {text: 259 + number for number, text in enumerate(["▁", "t", "h", "e", "th", "▁the", "▁t", "he"])}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def with_pieces(model, normalizer, pre_tokenizer):
    """Gives the model a tokenizer of SentencePiece: the byte tokens of Llama 2 and Mistral 7B."""
    content = tokenizer_document() | {"added_tokens": [], "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None}
    content["model"] = {"type": "BPE", "byte_fallback": True, "vocab": PIECES, "merges": [["t", "h"], ["▁", "t"]]}
    (model / "tokenizer.json").write_text(json.dumps(content))
    change_json(model / "tokenizer_config.json", removed=["add_bos_token"])


def test_a_sentencepiece_tokenizer_has_scores(model, tmp_path):
    with_pieces(model, None, METASPACE)
    export(model, tmp_path / "model.gguf")
    fields = fields_of(tmp_path / "model.gguf")
    assert fields["tokenizer.ggml.model"] == "llama" and "tokenizer.ggml.pre" not in fields
    scores, types = fields["tokenizer.ggml.scores"], fields["tokenizer.ggml.token_type"]
    assert (scores[PIECES["th"]], scores[PIECES["▁t"]], scores[PIECES["e"]]) == (0.0, -1.0, -2.0)  # merges by rank
    assert types[3:259] == [TokenType.BYTE] * 256 and types[500] == TokenType.UNUSED
    # llama.cpp would begin each text with a token that this tokenizer does not add.
    assert fields["tokenizer.ggml.add_bos_token"] is False


def test_steps_before_the_splitting_that_llama_cpp_has_are_exported(model, tmp_path):
    for number, (normalizer, space) in enumerate([(sequence(*MARKED), True), (MARKED[1], False), (sequence({"type": "NFC"}, *MARKED), True)]):
        with_pieces(model, normalizer, None)
        export(model, tmp_path / f"pieces-{number}.gguf")
        assert fields_of(tmp_path / f"pieces-{number}.gguf")["tokenizer.ggml.add_space_prefix"] is space
    with_pieces(model, None, {"type": "Metaspace", "replacement": "▁"})
    export(model, tmp_path / "metaspace.gguf")
    assert fields_of(tmp_path / "metaspace.gguf")["tokenizer.ggml.add_space_prefix"] is True
    for number, normalizer in enumerate([{"type": "NFC"}, sequence(), sequence({"type": "NFC"})]):  # Qwen's, DeepSeek's
        with_steps(model, [split(QWEN), byte_level(False)], normalizer=normalizer)
        export(model, tmp_path / f"bytes-{number}.gguf")


def test_steps_before_the_splitting_that_llama_cpp_lacks_are_refused_by_name(model, tmp_path):
    replace = {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
    for step in [{"type": "Lowercase"}, {"type": "NFKC"}, replace]:
        for normalizer in step, sequence({"type": "NFC"}, sequence(step)):
            with_steps(model, [split(QWEN), byte_level(False)], normalizer=normalizer)
            refusal = export(model, tmp_path / "model.gguf", exit_code=65)
            assert f"tokenizer.json: the normalizer {step['type']} changes a text before it is split" in refusal
        with_pieces(model, sequence(step, *MARKED), None)
        refusal = export(model, tmp_path / "model.gguf", exit_code=65)
        assert f"tokenizer.json: the normalizer {step['type']} changes a text before it is split" in refusal
    with_steps(model, [split(QWEN), byte_level(False)], normalizer=MARKED[1])
    assert "the normalizer Replace changes a text" in export(model, tmp_path / "model.gguf", exit_code=65)
    for normalizer in None, MARKED[0]:
        with_pieces(model, normalizer, None)
        assert "tokenizer.json: this tokenizer does not write a space as ▁" in export(model, tmp_path / "model.gguf", exit_code=65)


def test_special_tokens_of_config_json_are_taken_from_the_description(model, tmp_path):
    with_steps(model, [byte_level(True)])
    (model / "tokenizer_config.json").write_text("{}")
    change_json(model / "config.json", eos_token_id=7)
    export(model, tmp_path / "model.gguf")
    assert fields_of(tmp_path / "model.gguf")["tokenizer.ggml.eos_token_id"] == 7
