"""Runs the tokeniser helper, as the worker does: in a Python that imports nothing of the user's."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forking import forking_python
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "docs-llama"
SOURCES = ROOT / "worker" / "python"
PROGRAM = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import tokenize_text; sys.exit(tokenize_text.main(sys.argv[1:]))"


def run(model, out, *texts, python=None):
    python = python or forking_python("import jinja2.sandbox, pyarrow.parquet, safetensors.numpy, tokenizers")
    return subprocess.run([python, "-I", "-c", PROGRAM, *map(str, (model, out, *texts))], capture_output=True, text=True, timeout=60)


def encode(text):
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.fixture
def texts(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_bytes("The \"with\" statement.\r\nZwölf ☃\n".encode())
    second.write_bytes(b"for x in range(3):\n    print(x)\n")
    return first, second


def refused(result, out):
    """Returns the one line of stderr of a run that blames the input. Checks that it leaves nothing behind."""
    assert result.returncode == 65, result.stderr
    assert result.stdout == "" and result.stderr.count("\n") == 1
    assert not out.exists() and not list(out.parent.glob("*.safetensors")) and not list(out.parent.glob("*.partial"))
    return result.stderr


def test_texts_are_joined_with_a_blank_line_and_tokenised_once(tmp_path, texts):
    out = tmp_path / "tokens.safetensors"
    result = run(MODEL, out, *texts, python=sys.executable)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    tokens = load_file(out)["tokens"]
    assert tokens.dtype == "int32" and tokens.ndim == 1
    joined = "\n\n".join(path.read_bytes().decode() for path in texts)
    assert tokens.tolist() == encode(joined)
    assert 0 not in tokens  # no <|begin_of_text|>


def test_kept_files_are_never_open_to_the_writing_of_others(tmp_path, texts):
    before = os.umask(0)
    try:
        assert run(MODEL, tmp_path / "tokens.safetensors", *texts, python=sys.executable).returncode == 0
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("tokens.*")] == [0o644, 0o644]


def test_truncation_and_padding_of_the_tokenizer_file_are_ignored(tmp_path, texts):
    limited = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    limited.enable_truncation(4)
    limited.enable_padding(length=64)
    (tmp_path / "model").mkdir()
    limited.save(str(tmp_path / "model" / "tokenizer.json"))
    out = tmp_path / "tokens.safetensors"
    assert run(tmp_path / "model", out, texts[1]).returncode == 0
    assert load_file(out)["tokens"].tolist() == encode(texts[1].read_text())


def test_an_existing_output_is_replaced_and_nothing_else_left(tmp_path, texts):
    out = tmp_path / "tokens.safetensors"
    out.write_text("old")
    seal = tmp_path / "tokens.safetensors.sha256"
    before = set(tmp_path.iterdir())
    assert run(MODEL, out, *texts).returncode == 0
    assert set(tmp_path.iterdir()) == before | {seal} and load_file(out)["tokens"].size > 0
    assert seal.read_text() == hashlib.sha256(out.read_bytes()).hexdigest() + "\n"


def test_two_runs_write_the_same_bytes(tmp_path, texts):
    outs = [tmp_path / "1.safetensors", tmp_path / "2.safetensors"]
    for out in outs:
        run(MODEL, out, *texts)
    assert outs[0].read_bytes() == outs[1].read_bytes()


def test_a_missing_text_is_named(tmp_path, texts):
    out = tmp_path / "tokens.safetensors"
    message = refused(run(MODEL, out, texts[0], tmp_path / "absent.txt"), out)
    assert f"{tmp_path}/absent.txt: No such file or directory" in message


def test_a_text_that_is_not_utf8_is_named_with_the_place(tmp_path, texts):
    bad, out = tmp_path / "latin1.txt", tmp_path / "tokens.safetensors"
    bad.write_bytes(b"caf\xe9 au lait")
    message = refused(run(MODEL, out, texts[0], bad), out)
    assert f"{bad}: not UTF-8: byte 3 is invalid" in message


@pytest.mark.parametrize("content, fault", [
    ("café au lait".encode("utf-16"), "it begins as UTF-16 does"),
    ("au lait".encode("utf-16-le"), "byte 1 is zero, as in UTF-16 or in files that are no text"),  # valid UTF-8
    (gzip.compress(b"au lait"), "it begins as gzip does"),
    (b"%PDF-1.4\n%\xe2\xe3", "it begins as PDF does"),
])  # fmt: skip
def test_a_file_of_another_kind_is_named(tmp_path, texts, content, fault):
    bad, out = tmp_path / "text.txt", tmp_path / "tokens.safetensors"
    bad.write_bytes(content)
    assert f"{bad}: not UTF-8: {fault}" in refused(run(MODEL, out, texts[0], bad), out)


def test_a_model_without_tokenizer_is_refused(tmp_path, texts):
    (tmp_path / "model").mkdir()
    out = tmp_path / "tokens.safetensors"
    message = refused(run(tmp_path / "model", out, *texts), out)
    assert "model/tokenizer.json: no such file" in message


@pytest.mark.parametrize("content", ["", "{}", "[1, 2", '{"model": {"type": "BPE"}}'])
def test_a_broken_tokenizer_is_refused(tmp_path, texts, content):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text(content)
    out = tmp_path / "tokens.safetensors"
    message = refused(run(tmp_path / "model", out, *texts), out)
    assert "model/tokenizer.json: not a tokenizer" in message


def test_a_fault_of_the_tokenizer_quotes_nothing_of_the_file(tmp_path, texts):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").write_text('"root:$6$secret"')
    out = tmp_path / "tokens.safetensors"
    message = refused(run(tmp_path / "model", out, *texts), out)
    assert "secret" not in message and "at line 1 column 16" in message


@pytest.mark.parametrize("part", [
    {"pre_tokenizer": {"type": "FixedLength", "length": 0}},  # the library panics
    {"model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"a": 0}}},  # the library raises an Exception
])  # fmt: skip
def test_a_tokenizer_that_fails_at_the_text_is_refused(tmp_path, texts, part):
    (tmp_path / "model").mkdir()
    tokenizer = json.loads((MODEL / "tokenizer.json").read_text()) | part
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    out = tmp_path / "tokens.safetensors"
    result = run(tmp_path / "model", out, *texts)
    assert result.returncode == 65
    assert result.stderr.splitlines()[-1].endswith("model/tokenizer.json: cannot tokenise the text")
    assert not out.exists()


def test_a_token_beyond_int32_is_refused(tmp_path, texts):
    (tmp_path / "model").mkdir()
    model = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 2**31}}
    tokenizer = json.loads((MODEL / "tokenizer.json").read_text()) | {"model": model}
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(tokenizer))
    out = tmp_path / "tokens.safetensors"
    assert "has a token 2147483648, and the largest id is 2147483647" in refused(run(tmp_path / "model", out, *texts), out)


def test_a_missing_package_is_a_fault_of_the_installation(tmp_path, texts):
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, MODEL, tmp_path / "out.safetensors", *texts]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 69 and "No module named 'tokenizers'" in result.stderr


def hashes(*paths):
    return ["--sha256", *(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)]


def test_bytes_other_than_those_that_were_hashed_are_refused(tmp_path, texts):
    out = tmp_path / "tokens.safetensors"
    known = hashes(MODEL / "tokenizer.json", *texts)
    assert run(MODEL, out, *texts, *known).returncode == 0
    out.unlink()
    texts[1].write_bytes(texts[1].read_bytes().replace(b"print", b"PRINT"))
    message = refused(run(MODEL, out, *texts, *known), out)
    assert f"{texts[1]}: was changed while it was read" in message
    message = refused(run(MODEL, out, *texts, *hashes(texts[0], *texts)), out)
    assert "tokenizer.json: was changed while it was read" in message


def test_a_pipe_is_no_text(tmp_path, texts):
    pipe, out = tmp_path / "pipe", tmp_path / "tokens.safetensors"
    os.mkfifo(pipe)
    assert f"{pipe}: is not a regular file" in refused(run(MODEL, out, texts[0], pipe), out)


def test_memory_is_limited(tmp_path):
    text, out = tmp_path / "long.txt", tmp_path / "tokens.safetensors"
    text.write_bytes(b"with x: y\n" * (1 << 20))
    result = run(MODEL, out, text, "--memory", str(256 << 20), python=sys.executable)
    assert result.returncode not in (0, 65) and not out.exists()
    assert "memory" in result.stderr


def test_an_empty_text_is_refused(tmp_path):
    empty, out = tmp_path / "empty.txt", tmp_path / "tokens.safetensors"
    empty.write_text("")
    assert f"{empty}: no tokens in the text" in refused(run(MODEL, out, empty), out)


def test_an_output_that_cannot_be_written_is_not_the_inputs_fault(tmp_path, texts):
    result = run(MODEL, tmp_path / "no" / "such" / "folder.safetensors", *texts)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "folder.safetensors" in result.stderr


def test_too_few_arguments_are_a_usage_error(tmp_path):
    result = run(MODEL, tmp_path / "tokens.safetensors")
    assert result.returncode == 64 and result.stderr.startswith("usage: ")


def translate(direction, model, document, out):
    given = out.with_name("given.json")
    given.write_text(json.dumps(document))
    return run(direction, model, given, out)


def test_prompts_are_tokenised_one_by_one_and_come_back_from_their_ids(tmp_path):
    prompts = ["The with statement.", " for x in range(3):\n", "<|begin_of_text|>Zwölf ☃"]
    ids, texts = tmp_path / "ids.json", tmp_path / "texts.json"
    assert translate("--encode", MODEL, prompts, ids).returncode == 0
    assert json.loads(ids.read_text()) == [encode(prompt) for prompt in prompts]
    assert translate("--decode", MODEL, json.loads(ids.read_text()), texts).returncode == 0
    assert json.loads(texts.read_text()) == prompts


def test_a_prompt_without_tokens_is_refused(tmp_path):
    result = translate("--encode", MODEL, ["Words.", ""], tmp_path / "ids.json")
    assert result.returncode == 65 and "no tokens in the text ''" in result.stderr
    assert not (tmp_path / "ids.json").exists()


def test_nothing_of_the_working_directory_is_imported(tmp_path, texts):
    for module in ("json", "tokenizers", "numpy"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('executed')")
    out = tmp_path / "tokens.safetensors"
    command = [sys.executable, "-I", "-c", PROGRAM, MODEL, out, *texts]
    assert subprocess.run(command, cwd=tmp_path, timeout=60).returncode == 0


CONVERSATIONS = [
    [{"role": "user", "content": "Zwölf ☃?"}, {"role": "assistant", "content": "Twelve."}],
    [{"role": "user", "content": "for x in range(3):"}],
]
TEMPLATE = (
    "{{ bos_token }}{%- for message in messages %}\n[{{ message['role'] | upper }}]\n{{ message.content | trim }}"
    "{% generation %}{{ eos_token }}{% endgeneration %}\n{%- endfor %}{% if tools %}tools{% endif %}"
    "{{ strftime_now('%Y') }}{{ {'a': '<é>'} | tojson }}"
)


def templated(folder, template, **files):
    """Returns a model directory with a tokenizer and the template in tokenizer_config.json."""
    folder.mkdir()
    shutil.copy(MODEL / "tokenizer.json", folder)
    tokens = {"bos_token": {"__type": "AddedToken", "content": "<|begin_of_text|>", "special": True}, "eos_token": "<|end_of_text|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens | ({"chat_template": template} if template else {})))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def tokens_of(model, out, *texts):
    result = run(model, out, *texts)
    assert (result.returncode, result.stderr) == (0, "")
    return load_file(out)["tokens"].tolist()


def rendered(model):
    """Returns the conversations as transformers renders them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    return "".join(tokenizer.apply_chat_template(chat, tokenize=False) for chat in CONVERSATIONS)


def test_conversations_are_written_as_transformers_does(tmp_path):
    model = templated(tmp_path / "model", TEMPLATE.replace("strftime_now('%Y')", "'x'"))
    text = json_lines(tmp_path / "chat.jsonl", [{"id": 1, "messages": chat} for chat in CONVERSATIONS])
    expected = rendered(model)
    assert expected.count("<|begin_of_text|>") == 2 and "[USER]" in expected and "<é>" in expected
    tokens = tokens_of(model, tmp_path / "out.safetensors", text)
    assert tokens == encode(expected) and tokens.count(encode("<|begin_of_text|>")[0]) == 2


def test_a_template_writes_the_same_date_every_day(tmp_path):
    model = templated(tmp_path / "model", "{{ strftime_now('%d %b %Y') }}")
    text = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[0]}])
    assert tokens_of(model, tmp_path / "out.safetensors", text) == encode("26 Jul 2024")


ADDED = {"content": "<|end_of_text|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}


@pytest.mark.parametrize("settings, special_tokens, expected", [
    ({}, {"bos_token": None}, "|<|end_of_text|>"),
    ({}, {"bos_token": "<|end_of_text|>"}, "<|end_of_text|>|<|end_of_text|>"),
    ({"added_tokens_decoder": {"1": ADDED}}, {"bos_token": None, "eos_token": "x"}, "<|begin_of_text|>|<|end_of_text|>"),
])  # fmt: skip
def test_special_tokens_are_those_of_transformers(tmp_path, settings, special_tokens, expected):
    from transformers import AutoTokenizer

    template = "{{ bos_token }}|{{ eos_token }}"
    model = templated(tmp_path / "model", template, special_tokens_map__json=json.dumps(special_tokens))
    config = model / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    assert AutoTokenizer.from_pretrained(model).apply_chat_template(CONVERSATIONS[1], tokenize=False) == expected
    text = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[1]}])
    assert tokens_of(model, tmp_path / "out.safetensors", text) == encode(expected)


@pytest.mark.parametrize("place", ["chat_template.jinja", "chat_template.json", "list"])
def test_the_template_is_found_where_transformers_finds_it(tmp_path, place):
    other = "other {{ messages[0].content }}"
    if place == "list":
        model = templated(tmp_path / "model", [{"name": "default", "template": other}, {"name": "tool_use", "template": "t"}])
    elif place == "chat_template.jinja":
        model = templated(tmp_path / "model", TEMPLATE, chat_template__jinja=other)
    else:
        model = templated(tmp_path / "model", None, chat_template__json=json.dumps({"chat_template": other}))
    text = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[1]}])
    assert tokens_of(model, tmp_path / "out.safetensors", text) == encode("other for x in range(3):")


@pytest.mark.parametrize("template, fault", [
    ([{"name": "tool_use", "template": "t"}, {"name": "rag", "template": "t"}], "chat_template has templates named tool_use, rag, and messages are"),
    (5, "chat_template is not a text"),
])  # fmt: skip
def test_a_template_that_is_there_and_cannot_be_taken_is_named(tmp_path, template, fault):
    model, out = templated(tmp_path / "model", template), tmp_path / "out.safetensors"
    text = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[1]}])
    assert f"{model}/tokenizer_config.json: {fault}" in refused(run(model, out, text), out)


def test_columns_of_tables_are_read(tmp_path):
    import pyarrow
    import pyarrow.parquet

    model, out = templated(tmp_path / "model", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), tmp_path / "out.safetensors"
    texts = [{"label": 0, "text": "The with statement."}, {"label": 1, "text": "line\u2028separator"}]
    chat = "".join(f"{message['role']}: {message['content']}\n" for chat in CONVERSATIONS for message in chat)
    roles = {"user": "human", "assistant": "gpt"}
    shared = [{"conversations": [{"from": roles[m["role"]], "value": m["content"]} for m in c]} for c in CONVERSATIONS]
    lines = json_lines(tmp_path / "t.JSONL", texts)
    (tmp_path / "t.json").write_text(json.dumps(texts, ensure_ascii=False))
    shutil.copy(lines, tmp_path / "lines.json")
    (tmp_path / "s.json").write_text(json.dumps(shared, indent=1))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(texts), tmp_path / "t.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"messages": chat} for chat in CONVERSATIONS]), tmp_path / "m.parquet")
    for name in ("t.JSONL", "t.json", "lines.json", "t.parquet"):
        assert tokens_of(model, out, tmp_path / name) == encode("\n\n".join(row["text"] for row in texts)), name
    for name in ("s.json", "m.parquet"):
        assert tokens_of(model, out, tmp_path / name) == encode(chat), name
    plain = tmp_path / "plain.txt"
    plain.write_text("{\n  a block of code\n}\n")
    assert tokens_of(model, out, plain, tmp_path / "s.json") == encode(plain.read_text() + "\n\n" + chat)


NULLS = [
    [{"role": "user", "content": "Twelve?", "tool_calls": None}, {"role": "assistant", "content": None, "tool_calls": ["f"]}],
    [{"role": "user", "content": "for x in range(3):", "name": None, "tool_calls": None}],
]


@pytest.mark.parametrize("name", ["m.jsonl", "m.json", "m.parquet"])
def test_a_null_of_a_message_is_absent_as_in_transformers(tmp_path, name):
    import pyarrow
    import pyarrow.parquet
    from transformers import AutoTokenizer

    template = (
        "{% for m in messages %}{{ m.role }}:{% if m.content is defined %} {{ m.content }}{% endif %}"
        "{% if m.tool_calls is defined %}[CALLS]{{ m.tool_calls }}{% endif %}{{ m.name }}\n{% endfor %}"
    )
    model, text, rows = templated(tmp_path / "model", template), tmp_path / name, [{"messages": chat} for chat in NULLS]
    if text.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), text)
    else:
        text.write_text("\n".join(map(json.dumps, rows)))
    tokenizer = AutoTokenizer.from_pretrained(model)
    expected = "".join(tokenizer.apply_chat_template(chat, tokenize=False) for chat in NULLS)
    assert expected.count("[CALLS]") == 1 and "None" not in expected
    assert tokens_of(model, tmp_path / "out.safetensors", text) == encode(expected)


# Cases: name of the file, its content, message.
REFUSED = {
    "other columns": ("t.jsonl", '{"prompt": "a", "completion": "b"}',
                      "has the columns 'prompt', 'completion', and one of messages, conversations, text"),
    "JSON lines under another name": ("t.txt", '\n{"text": "a"}\n{"text": "b"}\n', "has JSON lines, not text: with a name that ends in .jsonl"),
    "parquet under another name": ("t.txt", "PAR1 and more", "is a parquet file, not text: with a name that ends in .parquet"),
    "no parquet": ("t.parquet", "PAR1 and more", "not a parquet file that can be read"),
    "a line that is no JSON": ("t.jsonl", '{"text": "a"}\n{"text": ', "line 2 is not JSON: "),
    "a row that is no object": ("t.json", '[{"text": "a"}, 3]', "row 2 is not an object"),
    "a row without the column": ("t.jsonl", '{"text": "a"}\n{"label": 1}', "row 2 has no text"),
    "a text that is none": ("t.jsonl", '{"text": ["a"]}', "row 1: text is not a text"),
    "no rows": ("t.jsonl", "\n", "has no rows"),
    "messages that are none": ("t.jsonl", '{"messages": [{"speaker": "a"}]}', "row 1: messages must be a list of objects with role and content"),
    "an unknown speaker": ("t.jsonl", '{"conversations": [{"from": "moderator", "value": "a"}]}',
                           "row 1: conversations: from 'moderator' is not one of human"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_cannot_be_read_are_refused_with_their_fault(tmp_path, case):
    name, content, said = REFUSED[case]
    (tmp_path / name).write_text(content)
    out = tmp_path / "tokens.safetensors"
    message = refused(run(templated(tmp_path / "model", TEMPLATE), out, tmp_path / name), out)
    assert f"{tmp_path / name}: {said}" in message


# Cases: template, message.
FAULTS = {
    "endless loops": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "took more than 5 s"),
    "a power": ("{{ 9 ** 9 ** 9 }}", "fails: SecurityError"),
    "classes": ("{{ ''.__class__.__mro__ }}", "fails: SecurityError"),
    "changed messages": ("{{ messages.append(1) }}", "fails: SecurityError"),
    "a file": ("{% include '/etc/passwd' %}", "fails: TypeError"),
    "its own refusal": ("{{ raise_exception('roles must alternate') }}", "refuses it: roles must alternate"),
    "a fault of syntax": ("{% if %}", "not a chat template: a fault at line 1"),
    "none": (None, "has no chat template, which messages need"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_template_has_neither_files_nor_endless_time(tmp_path, case):
    template, said = FAULTS[case]
    text, out = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[0]}]), tmp_path / "tokens.safetensors"
    assert said in refused(run(templated(tmp_path / "model", template), out, text), out)


def test_a_template_keeps_within_the_memory(tmp_path):
    model, out = templated(tmp_path / "model", "{{ 'x' * 10000000000 }}"), tmp_path / "out.safetensors"
    result = run(model, out, json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[0]}]), "--memory", str(512 << 20), python=sys.executable)
    assert result.returncode == 1 and "bytes of memory are too few" in result.stderr and not out.exists()


def test_another_template_than_the_one_that_was_hashed_is_refused(tmp_path):
    model, out = templated(tmp_path / "model", TEMPLATE), tmp_path / "tokens.safetensors"
    text = json_lines(tmp_path / "chat.jsonl", [{"messages": CONVERSATIONS[0]}])
    config = hashlib.sha256((model / "tokenizer_config.json").read_bytes()).hexdigest()
    assert run(model, out, text, "--template-sha256", "absent", config, *["absent"] * 3).returncode == 0
    out.unlink()
    (model / "chat_template.jinja").write_text("ignored, as it was absent")
    assert run(model, out, text, "--template-sha256", "absent", config, *["absent"] * 3).returncode == 0
    out.unlink()
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": "another"}))
    message = refused(run(model, out, text, "--template-sha256", "absent", config, *["absent"] * 3), out)
    assert "tokenizer_config.json: was changed while it was read" in message
