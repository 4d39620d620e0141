"""Tests that `dotresize vocabulary` takes tokens from a model and nothing else: a text whose tokens all stay has the same tokens
and the same predictions, any other text still has tokens, and ids follow in all files."""

import json
import os
import random
import subprocess
import sys

import pytest
import torch
from exports import change_json, make_model
from forking import HELPERS, forking_python
from running import BUILD, EXAMPLE, ROOT, keys_of, report_of, run_worker
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(ROOT / "worker" / "python"))
import smaller_tokenizer  # noqa: E402

TEXT = "The function returns the value of the first argument.\nIt returns an empty list if there is none.\n" * 3
ODD_TEXT = "naïve “quotes” \U0001f600 Привет \x07\t§"


def vocabulary(model, out, *options, keep=300, texts=(), exit_code=0):
    """Runs the verb. Returns its result, or the errors if it fails as it should."""
    if not texts:
        texts = [model / "text.txt"]
        if not texts[0].exists():
            texts[0].write_text(TEXT)
    command = [BUILD / "bin" / "dotresize", "vocabulary", model, out, "--keep", keep, "-o", "json", *options, "--text", *texts]
    env = os.environ | {"DOTRESIZE_PYTHON": forking_python(HELPERS)}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == exit_code, done.stderr
    return json.loads(done.stdout) if exit_code == 0 else done.stderr


def ids_by_text(directory):
    """{text: id} of all tokens."""
    return AutoTokenizer.from_pretrained(directory).get_vocab()


def new_ids(source, output):
    after = ids_by_text(output)
    return {number: after[text] for text, number in ids_by_text(source).items() if text in after}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The example with half of its tokens. Its text has some that do not stay."""
    out = tmp_path_factory.mktemp("vocabulary") / "out"
    result = vocabulary(EXAMPLE, out, "--check", EXAMPLE / "README.md", keep=2048, texts=[ROOT / "README.md"])
    return out, result


def test_predictions_are_those_of_the_tokens_that_stay(trained):
    out, result = trained
    kept = new_ids(EXAMPLE, out)
    assert len(kept) == result["vocabulary"] == 2048 and result["vocabulary_before"] == 4096
    old, new = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval() for folder in (EXAMPLE, out))
    assert result["parameters"] == new.num_parameters()
    before, after = AutoTokenizer.from_pretrained(EXAMPLE), AutoTokenizer.from_pretrained(out)
    compared = 0
    for line in (ROOT / "README.md").read_text().splitlines():
        ids = before(line)["input_ids"]
        if not ids or not set(ids) <= kept.keys():
            continue
        assert after(line)["input_ids"] == [kept[number] for number in ids]
        with torch.no_grad():
            dense = old(torch.tensor([ids])).logits[0][:, sorted(kept, key=kept.get)]
            torch.testing.assert_close(new(torch.tensor([after(line)["input_ids"]])).logits[0], dense, rtol=0, atol=1e-5)
        compared += 1
    assert compared > 20


def test_any_text_has_tokens_and_comes_back(trained):
    tokenizer = AutoTokenizer.from_pretrained(trained[0])
    for text in (ODD_TEXT, (ROOT / "README.md").read_text()):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert max(ids) < 2048
        assert tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False) == text


def test_the_result_counts_the_checked_text(trained):
    out, result = trained
    text = (EXAMPLE / "README.md").read_text()
    before, after = (Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids for folder in (EXAMPLE, out))
    kept = new_ids(EXAMPLE, out)
    assert result["tokens"] == len(before) and result["tokens_after"] == len(after)
    assert result["share_kept"] == pytest.approx(sum(number in kept for number in before) / len(before))
    assert 0 < result["share_kept"] < 1


def test_ids_of_settings_follow_their_tokens(tmp_path):
    model, out = tmp_path / "model", tmp_path / "out"
    make_model(model, "llama", tie_word_embeddings=False)
    document = json.loads((model / "tokenizer.json").read_text())
    last = max(document["model"]["vocab"].values())
    word = next(text for text, number in document["model"]["vocab"].items() if number == last)
    processor = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": word, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                 "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                 "special_tokens": {word: {"id": word, "ids": [last], "tokens": [word]}}}  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(document | {"post_processor": processor}))
    change_json(model / "config.json", eos_token_id=[1, last], pad_token_id=-1)
    change_json(model / "generation_config.json", eos_token_id=last, suppress_tokens=[400, last], bad_words_ids=[[400, 1], [last]])
    vocabulary(model, out)
    kept = new_ids(model, out)
    assert 400 not in kept and kept[last] != last
    config, generation = keys_of(out), json.loads((out / "generation_config.json").read_text())
    assert config["eos_token_id"] == [kept[1], kept[last]] and config["pad_token_id"] == -1 and config["vocab_size"] == 300
    assert generation["eos_token_id"] == kept[last]
    assert generation["suppress_tokens"] == [kept[last]] and generation["bad_words_ids"] == [[kept[last]]]
    assert Tokenizer.from_file(str(out / "tokenizer.json")).encode("the").ids[0] == kept[last]
    weights = [load_file(next(folder.glob("*.safetensors"))) for folder in (model, out)]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(weights[1][name], weights[0][name][sorted(kept)])
    for name in weights[0].keys() - {"model.embed_tokens.weight", "lm_head.weight"}:
        assert torch.equal(weights[1][name], weights[0][name])


MIXTURE = {"num_experts": 11, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 16}
STACKED = {"num_local_experts": 11, "num_experts_per_tok": 2, "head_dim": 16, "intermediate_size": 24}
MIXTURES = {"gpt_oss": STACKED, "mixtral": STACKED, "qwen3_moe": MIXTURE}


def fuse_experts(model):
    """Stores the experts as transformers 5 names them in a model: those of a layer in one tensor, gate and up together."""
    file = next(model.glob("*.safetensors"))
    fused, experts = {}, {}
    for name, tensor in load_file(file).items():
        layer, of_expert, place = name.partition("experts.")
        if of_expert:
            number, part = place.split(".")[:2]
            part = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}.get(part, part)
            experts.setdefault(layer.replace("block_sparse_moe", "mlp"), {})[int(number), part] = tensor
        else:
            fused[name.replace("block_sparse_moe", "mlp")] = tensor
    for layer, parts in experts.items():
        numbers = sorted({number for number, _ in parts})
        gate_up = [torch.cat([parts[number, "gate_proj"], parts[number, "up_proj"]]) for number in numbers]
        fused[f"{layer}experts.gate_up_proj"] = torch.stack(gate_up)
        fused[f"{layer}experts.down_proj"] = torch.stack([parts[number, "down_proj"] for number in numbers])
    save_file(fused, file, metadata={"format": "pt"})


FORMS = [("gpt_oss", "saved"), ("mixtral", "saved"), ("mixtral", "fused"), ("qwen3_moe", "saved"), ("qwen3_moe", "fused")]


@pytest.mark.parametrize(("family", "form"), FORMS)
def test_experts_have_the_names_that_transformers_reads(family, form, tmp_path):
    model, out = tmp_path / "model", tmp_path / "out"
    dense = make_model(model, family, tie_word_embeddings=False, **MIXTURES[family]).eval()
    saved = load_file(next(model.glob("*.safetensors")))
    if form == "fused":
        fuse_experts(model)
    result = vocabulary(model, out)
    written = load_file(next(out.glob("*.safetensors")))
    assert {name: tensor.shape[1:] for name, tensor in written.items()} == {name: tensor.shape[1:] for name, tensor in saved.items()}
    kept = new_ids(model, out)
    smaller, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True)
    assert not any(info.values()) and result["parameters"] == smaller.num_parameters()
    old = sorted(kept)[::3]
    with torch.no_grad():
        expected = dense(torch.tensor([old])).logits[0][:, sorted(kept, key=kept.get)]
        found = smaller.eval()(torch.tensor([[kept[number] for number in old]])).logits[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_tokens_of_bytes_stay_where_characters_fall_back_on_them(tmp_path):
    model, out = tmp_path / "model", tmp_path / "out"
    make_model(model, "llama", vocab_size=600)
    document = json.loads((model / "tokenizer.json").read_text())
    texts = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyzé漢字語", "th", "the", "▁the"]
    vocab = {text: number for number, text in enumerate(texts)}
    merges = [["t", "h"], ["th", "e"], ["▁", "the"]]
    document |= {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, "pre_tokenizer": None, "added_tokens": [],
                 "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                              {"type": "ByteFallback"}, {"type": "Fuse"}]},
                 "model": {"type": "BPE", "vocab": vocab, "merges": merges, "byte_fallback": True, "unk_token": "<unk>",
                           "fuse_unk": True}}  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(document))
    (model / "text.txt").write_text(" the the the")
    vocabulary(model, out, keep=270)
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode(" the").tokens == ["▁the"]
    assert tokenizer.token_to_id("漢") is None
    assert tokenizer.decode(tokenizer.encode(" the 漢é").ids) == " the 漢é"


@pytest.mark.parametrize("seed", range(5))
def test_a_text_whose_tokens_all_stay_has_the_same_tokens(seed):
    """Random merges, which often make a token in several ways, over an alphabet of four letters."""
    choose = random.Random(seed)
    vocab, merges = {letter: number for number, letter in enumerate("abcd")}, []
    while len(vocab) < 80:
        pair = [choose.choice(list(vocab)), choose.choice(list(vocab))]
        if len("".join(pair)) <= 6 and pair not in merges:
            merges.append(pair)
            vocab.setdefault("".join(pair), len(vocab))
    document = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": merges}}
    before = Tokenizer.from_str(json.dumps(document))
    smaller = smaller_tokenizer.BpeTokenizer(document, "tokenizer.json")
    counts = {number: choose.randrange(100) for number in vocab.values()}
    kept = {number: new for new, number in enumerate(smaller.choose(counts, set(), 40))}
    after = Tokenizer.from_str(json.dumps(smaller.with_tokens(kept)))
    compared = 0
    for _ in range(3000):
        text = "".join(choose.choices("abcd", k=choose.randrange(1, 12)))
        ids = before.encode(text).ids
        if set(ids) <= kept.keys():
            compared += 1
            assert after.encode(text).ids == [kept[number] for number in ids], text
    assert compared > 100


def unigram(model):
    document = json.loads((model / "tokenizer.json").read_text())
    (model / "tokenizer.json").write_text(json.dumps(document | {"model": {"type": "Unigram", "vocab": []}}))


def without_merges(model):
    document = json.loads((model / "tokenizer.json").read_text())
    del document["model"]["merges"]
    (model / "tokenizer.json").write_text(json.dumps(document))


def last_row_without_token(model):
    """As published embeddings with more rows than tokens, one of which a setting names."""
    document = json.loads((model / "tokenizer.json").read_text())
    vocabulary = document["model"]["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    change_json(model / "generation_config.json", eos_token_id=[1, vocabulary.pop(last)])
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in document["model"]["merges"]]
    document["model"]["merges"] = [merge for merge in merges if "".join(merge) != last]
    (model / "tokenizer.json").write_text(json.dumps(document))


def write(name, text):
    return lambda model: (model / name).write_text(text)


REFUSALS = {
    "an id without a token": (last_row_without_token, {}, "the settings name the token 511, which tokenizer.json does not have"),
    "fewer than the bytes": (lambda model: None, {"keep": 100}, "--keep 100: the added tokens, the tokens of bytes and those that settings name"),
    "as many as there are": (lambda model: None, {"keep": 512}, "--keep 512: the model has 512 tokens; keep fewer"),
    "no tokenizer": (lambda model: (model / "tokenizer.json").unlink(), {}, "has no tokenizer.json"),
    "not BPE": (unigram, {}, "a Unigram tokenizer cannot lose tokens here"),
    "malformed": (without_merges, {}, "not a tokenizer"),
    "more tokens than rows": (lambda model: change_json(model / "config.json", vocab_size=256), {}, "embed_tokens"),
    "ids in pairs": (lambda model: change_json(model / "generation_config.json", forced_decoder_ids=[[1, 7]]), {}, "forced_decoder_ids names"),
    "settings that are a list": (write("generation_config.json", "[1]"), {}, "generation_config.json: must be a JSON object, not array"),
    "a key given twice": (write("tokenizer_config.json", '{"a": 1, "a": 2}'), {}, "tokenizer_config.json: the key 'a' is given twice"),
    "an id that is a word": (lambda model: change_json(model / "generation_config.json", eos_token_id="two"), {},
                             "generation_config.json: not a file of settings"),
    "an empty text": (lambda model: (model / "text.txt").write_text(""), {}, "no tokens in the text"),
    "a text that is not there": (lambda model: None, {"texts": ["missing.txt"]}, "missing.txt"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_a_model_that_cannot_lose_tokens_is_refused(name, tmp_path):
    spoil, options, expected = REFUSALS[name]
    make_model(tmp_path / "model", "llama")
    spoil(tmp_path / "model")
    assert expected in vocabulary(tmp_path / "model", tmp_path / "out", exit_code=65, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_nothing_is_written_over(tmp_path):
    make_model(tmp_path / "model", "llama")
    vocabulary(tmp_path / "model", f"{tmp_path}/out/")
    assert "is there already" in vocabulary(tmp_path / "model", tmp_path / "out", exit_code=65)


def test_a_text_to_check_is_read_before_anything_is_written(tmp_path):
    make_model(tmp_path / "model", "llama")
    assert "missing.txt" in vocabulary(tmp_path / "model", tmp_path / "out", "--check", "missing.txt", exit_code=65)
    assert not (tmp_path / "out").exists()


def test_a_job_takes_the_result_as_any_model(trained, tmp_path):
    text = {"text": [str(ROOT / "docs" / "method.md")], "samples": 4, "seqlen": 128}
    job = {"name": "smaller", "model": {"path": str(trained[0])}, "calibration": text, "evaluation": text, "method": {"size": 0.9},
           "output": {"path": str(tmp_path / "out")}}  # fmt: skip
    output = run_worker(tmp_path, job, ranks=1)
    assert keys_of(output)["vocab_size"] == 2048
    assert report_of(output)["compressed"]["perplexity"] < 1.5 * report_of(output)["dense"]["perplexity"]
    subprocess.run([BUILD / "bin" / "dotresize", "verify", output, "--against", trained[0], "--text", *text["text"]], check=True)
