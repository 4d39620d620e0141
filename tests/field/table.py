"""Checkpoints and machines as people have them, and what dotresize gives for each: one entry for each situation.

An entry has a name, a maker, and the expectation; its verb is the command, which is typed in the folder that the maker fills
(situations.Place). A new report is a new entry. A change to a checkpoint that no other entry has goes to bends.py.
"""

import math

import torch
from bends import (
    ABSENT,
    adapter,
    awq,
    biases,
    bitsandbytes,
    checkpoint_wrapped,
    copied,
    cut_off,
    dtype_without_name,
    duplicated,
    equal_head,
    file,
    folder,
    fp8,
    fused_experts,
    gptq,
    hub_cache,
    in_layers,
    job,
    jsonl,
    keys,
    leftover,
    linked,
    metadata,
    mlx,
    moved,
    own_keys_of_heads,
    parquet,
    prefixed,
    removed,
    renamed,
    rotary,
    scaled,
    shards,
    split_by,
    stale_shards,
    stored_as,
    tensors,
    text_job,
    token_beyond_the_vocabulary,
    unmerged_lora,
    vocabulary_and_merges,
    without,
)
from expectations import contradiction, either, equal, exported, of_text, refused, runs, sized, written
from situations import Situation, made, rendered, text_of

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3_ALONE = {key: value for key, value in LLAMA3.items() if "original" not in key}
LONGROPE = {"short_factor": [1.0, 1.25, 1.5, 1.75], "long_factor": [3.0, 3.75, 4.5, 5.25]}
DEFAULT = {"rope_type": "default"}
LINEAR = {"rope_type": "linear", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
BUFFER = "model.layers.0.self_attn.rotary_emb.inv_freq"
TEXT = text_of(400)
TEXTS = [text_of(30, seed) for seed in range(20)]
CHATS = [[{"role": "user", "content": text_of(12, seed)}, {"role": "assistant", "content": text_of(20, seed + 100)}] for seed in range(20)]
DTYPES = ("float32", "float16", "bfloat16")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}|{SYMBOLS}"
SUFFIX = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}|\p{{N}}{{1,3}}|{SYMBOLS}"
ADDED = "added_tokens.json"
RUN = "dotresize run job.json"
EVAL = "dotresize eval model --tokens tokens.safetensors -o json"


def reads(name, make, expectation):
    return Situation(name, make, EVAL, expectation)


def reads_text(name, make, expectation, text="text.txt"):
    return Situation(name, make, f"dotresize eval model --text {text} --seqlen 32 -o json", expectation)


def plans(name, make, expectation):
    return Situation(name, make, "dotresize plan job.json -o json", expectation)


def compresses(name, make, expectation, before="", after="", as_root=False):
    return Situation(name, make, f"{before}{RUN}{after}", expectation, as_root)


def exports(name, make, expectation, type_of_weights="f32", out="model.gguf"):
    return Situation("GGUF: " + name, make, f"dotresize export model {out} --to gguf --type {type_of_weights}", expectation)


def llama(*bends):
    return made("llama", *bends)


def mistral(*bends):
    return made("mistral", *bends)


def phi3(*bends):
    return made("phi3", *bends)


def qwen2(*bends):
    return made("qwen2", *bends)


def qwen3(*bends):
    return made("qwen3", *bends)


def qwen3_moe(*bends):
    """transformers 5 writes the number of experts under another key than 4 reads."""
    return made("qwen3_moe", keys(num_experts=4), *bends)


ROTARY = [  # transformers 4 has rope_theta and rope_scaling, 5 has rope_parameters
    reads("theta at the top level", llama(rotary(rope_theta=100.0)), equal(4, 5)),
    reads("theta in rope_parameters", llama(keys(rope_parameters=DEFAULT | {"rope_theta": 100.0})), equal(5)),
    reads("theta beside rope_parameters without one", llama(keys(rope_parameters=DEFAULT, rope_theta=100.0)), equal(4, 5)),
    reads("theta inside rope_scaling alone", llama(rotary(LLAMA3 | {"rope_theta": 5e5})), equal(5)),
    reads("theta inside rope_scaling and beside it, equal", llama(rotary(LLAMA3 | {"rope_theta": 5e5}, rope_theta=5e5)), equal(4, 5)),
    reads("theta inside rope_scaling and beside it, unequal", llama(rotary(LLAMA3 | {"rope_theta": 5e5}, rope_theta=1e4)),
          contradiction("rope_theta", "500000", "10000")),
    reads("rope_parameters beside another rope_scaling", llama(keys(rope_parameters=DEFAULT | {"rope_theta": 100.0}, rope_scaling=LINEAR)),
          refused("rope_parameters", "rope_scaling")),
    reads("settings by layer type in rope_scaling",
          qwen3(rotary({"full_attention": {"rope_type": "default", "rope_theta": 100.0}})), refused("rope_scaling", "layer type")),
    reads("llama3", llama(rotary(LLAMA3, rope_theta=5e5)), equal(4, 5)),
    reads("linear under the old key `type`", llama(rotary({"type": "linear", "factor": 4.0}, rope_theta=1e4)), equal(4, 5)),
    reads("yarn without the original positions", qwen2(rotary({"type": "yarn", "factor": 4.0}, rope_theta=1e4)), equal(4, 5)),
    reads("yarn with the original positions", mistral(rotary(YARN, rope_theta=1e4)), equal(4, 5)),
    reads("yarn with the original positions outside rope_scaling",
          qwen2(rotary({"type": "yarn", "factor": 4.0}, rope_theta=1e4, original_max_position_embeddings=32)), equal(5)),
    reads("llama3 with the original positions outside rope_scaling",
          llama(rotary(LLAMA3_ALONE, rope_theta=1e4, original_max_position_embeddings=32)), equal(5)),
    reads("dynamic beyond the positions", llama(rotary(DYNAMIC, rope_theta=1e4, max_position_embeddings=32)), equal(4, 5)),
    reads("longrope beyond the original positions",
          phi3(rotary({"type": "longrope", **LONGROPE}, rope_theta=1e4, original_max_position_embeddings=48)), equal(4, 5)),
    reads("longrope under the name su, which transformers 5 has no more",
          phi3(rotary({"type": "su", **LONGROPE}, rope_theta=1e4, original_max_position_embeddings=48)), equal(4)),
    reads("a partial rotary embedding", phi3(rotary(None, rope_theta=1e4, partial_rotary_factor=0.5)), equal(4, 5)),
    reads("a partial rotary embedding inside rope_scaling", phi3(rotary(DEFAULT | {"partial_rotary_factor": 0.5}, rope_theta=1e4)), equal(5)),
    reads("theta null, which transformers cannot compute with", llama(rotary(rope_theta=None)), refused("rope_theta")),
    reads("a factor beside a rotary type that is null", llama(rotary({"type": None, "factor": 4.0}, rope_theta=1e4)), refused("type")),
    reads("a rotary type that nobody knows", llama(rotary({"rope_type": "mrope", "mrope_section": [2, 1, 1]}, rope_theta=1e4)), refused("mrope")),
]

WINDOWS = [
    reads("mistral with a window", mistral(keys(sliding_window=7)), equal(4, 5)),
    reads("mistral without the key of the window", mistral(keys(sliding_window=ABSENT)), equal(4, 5)),
    reads("qwen2 with a window, use_sliding_window absent",
          qwen2(keys(sliding_window=7, use_sliding_window=ABSENT, layer_types=ABSENT)), equal(4, 5)),
    reads("qwen2 with a window, use_sliding_window false",
          qwen2(keys(sliding_window=7, use_sliding_window=False, layer_types=ABSENT)), equal(4, 5)),
    reads("qwen2 with a window on all layers",
          qwen2(keys(sliding_window=7, use_sliding_window=True, max_window_layers=0, layer_types=ABSENT)), equal(4, 5)),
    reads("qwen2 with a window from layer 28 on",
          qwen2(keys(sliding_window=7, use_sliding_window=True, max_window_layers=ABSENT, layer_types=ABSENT)), equal(4, 5)),
    reads("qwen2 with a window on one of two layers",
          qwen2(keys(sliding_window=7, use_sliding_window=True, max_window_layers=1, layer_types=ABSENT)), equal(4, 5)),
    *(reads(f"mistral with layer_types, {name}", mistral(keys(sliding_window=7, layer_types=[f"{each}_attention" for each in types])), expectation)
      for name, types, expectation in (("full", ["full"] * 2, equal(4, 5)), ("sliding", ["sliding"] * 2, equal(4, 5)),
                                       ("mixed", ["full", "sliding"], refused("layer_types", "1 of 2 layers")))),
    reads("qwen3 with a window by layer_types",
          qwen3(keys(sliding_window=7, use_sliding_window=True, layer_types=["sliding_attention"] * 2)), equal(4, 5)),
    reads("qwen3 with sliding layer_types, use_sliding_window false",
          qwen3(keys(sliding_window=7, use_sliding_window=False, layer_types=["sliding_attention"] * 2)),
          refused("layer_types", "use_sliding_window")),
    reads("qwen3_moe with a window that is not used", qwen3_moe(keys(sliding_window=7)), equal(4, 5)),
]

HEADS_AND_BIASES = [
    reads("head_dim absent", llama(keys(head_dim=ABSENT)), equal(4, 5)),
    reads("head_dim null", mistral(keys(head_dim=None)), equal(4, 5)),
    reads("head_dim other than hidden_size / heads", qwen3(), equal(4, 5)),
    reads("head_dim absent where the family has 128", made("qwen3 of wide heads", keys(head_dim=ABSENT)), equal(4, 5)),
    reads("head_dim absent where the model has another than the family", qwen3(keys(head_dim=ABSENT)), refused("shape", "head_dim")),
    reads("num_key_value_heads absent where each head has its keys", llama(own_keys_of_heads, keys(num_key_value_heads=ABSENT)), equal(4, 5)),
    reads("num_key_value_heads absent where heads share keys", llama(keys(num_key_value_heads=ABSENT)), refused("k_proj", "num_key_value_heads")),
    reads("num_key_value_heads null", llama(keys(num_key_value_heads=None)), refused("k_proj", "num_key_value_heads")),
    reads("attention_bias and mlp_bias", llama(biases("qkvo"), biases(["gate", "up", "down"], "mlp"), keys(attention_bias=True, mlp_bias=True)),
          equal(4, 5)),
    reads("attention_bias of a llama made of a qwen2, without that of o_proj",  # vllm-project/vllm#3767
          llama(biases("qkv"), keys(attention_bias=True)), refused("o_proj.bias", "attention_bias|qwen2")),
    reads("attention_bias without stored biases", llama(keys(attention_bias=True)), refused("bias", "attention_bias")),
    reads("biases stored, attention_bias false", llama(biases("qkvo")), either(refused("bias", "attention_bias"), equal(4, 5, says="bias"))),
]

TIES = [
    reads("tie true with an equal head", llama(keys(tie_word_embeddings=True), tensors(equal_head)), equal(4, 5)),
    reads("tie true with another head", llama(keys(tie_word_embeddings=True)), contradiction("tie_word_embeddings", "lm_head.weight", "false")),
    reads("tie true without a head", llama(keys(tie_word_embeddings=True), removed("lm_head")), equal(4, 5)),
    reads("tie false without a head", llama(removed("lm_head")), refused("lm_head.weight", "tie_word_embeddings")),
    reads("tie absent without a head", llama(keys(tie_word_embeddings=ABSENT), removed("lm_head")), refused("lm_head.weight", "tie_word_embeddings")),
    reads("tie absent with a head", llama(keys(tie_word_embeddings=ABSENT)), equal(4, 5)),
    reads("tie true, and only the head is stored", llama(keys(tie_word_embeddings=True), removed("embed_tokens")),
          either(equal(5), refused("embed_tokens.weight", "lm_head.weight"))),
]

FILES = [
    reads("shards with an index", llama(shards(3)), equal(4, 5)),
    reads("a stale second set of shards", llama(shards(3), stale_shards(6)), equal(5, says="model-00001-of-00006.safetensors")),
    reads("a single file beside shards with an index", llama(shards(2, keep_single=True)), equal(4, 5, says="model-00001-of-00002.safetensors")),
    reads("a stub of a single file beside shards with an index",  # huggingface/accelerate#2698
          llama(shards(2), leftover("model.norm.weight")), refused("model.safetensors (lacks|has no)", "model.safetensors.index.json")),
    reads("an index that lists a buffer which is not stored", llama(shards(2, listed=[BUFFER])), equal(5)),
    reads("a shard with a buffer which the index does not list", llama(shards(2, unlisted=[BUFFER])), equal(5)),
    reads("a tensor in two shards", llama(shards(2), duplicated), either(equal(5), refused("model-00002-of-00002", "places it in"))),
    reads("a missing shard", llama(shards(3, missing=[1])), refused("model-00002-of-00003.safetensors", "missing")),
    reads("an index of another division into shards",  # Neph0s/CoSER#3
          llama(shards(3, missing=[0, 1, 2], keep_single=True), moved("model/model.safetensors", "model/model-00001-of-00001.safetensors")),
          refused("model-00001-of-00003.safetensors", "missing", "model-00001-of-00001.safetensors")),
    reads("shards without an index",  # unslothai/unsloth#1521
          llama(shards(2), without("model/model.safetensors.index.json")), either(equal(), refused("model-00001-of-00002", "index.json"))),
    reads("consolidated.safetensors beside the weights", mistral(copied("model/model.safetensors", "model/consolidated.safetensors")), equal(4, 5)),
    reads("an adapter beside the weights", llama(adapter), refused("adapter_(config|model)", "merge")),
    reads("a download that broke off", llama(cut_off("model/model.safetensors", 0.6)), refused("model.safetensors", "cut off|beyond the end")),
    reads("a header with an entry of no dtype",  # pytorch/torchtitan#3764
          llama(removed("lm_head"), dtype_without_name("lm_head.weight")), refused("lm_head.weight", "dtype")),
    reads("a pointer of git-lfs", llama(file("model/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123456\n")),
          refused("git.?lfs", "git lfs pull")),
    reads("a GGUF file alone", llama(without("model/model.safetensors"), file("model/model-q4_k_m.gguf", b"GGUF\x03\0\0\0")),
          refused("GGUF", "safetensors")),
    reads("pytorch_model.bin alone", llama(moved("model/model.safetensors", "model/pytorch_model.bin")),
          refused("pytorch_model.bin", "save_pretrained")),
    reads("a directory of the hub's cache above its snapshots", llama(hub_cache), refused("snapshots/0123456789abcdef")),
    reads("a link to a file that is gone", llama(without("model/model.safetensors"), linked("model/model.safetensors", "../blobs/0123")),
          refused("model.safetensors", "link")),
    reads("metadata of another framework", llama(metadata("format", "mlx")), equal(5)),  # ml-explore/mlx#743
]

NAMES_AND_SHAPES = [
    reads("names without `model.`", llama(renamed("model.", "")), equal(5)),
    reads("names without `model.` and a tied head", qwen3(renamed("model.", ""), removed("lm_head"), keys(tie_word_embeddings=True)), equal(4, 5)),
    reads("names of a compiled model", llama(prefixed("_orig_mod.")), refused(r"_orig_mod\.", "rename|save")),
    reads("names of a vision model's language part", llama(prefixed("language_model.")), refused(r"language_model\.", "save|give")),
    reads("names of a merged PEFT model", llama(prefixed("base_model.model.")), refused(r"base_model\.model\.", "PEFT|merge|rename")),
    reads("names of a model with activation checkpoints", llama(checkpoint_wrapped),  # pytorch/pytorch#117399
          refused(r"_checkpoint_wrapped_module\.", "rename|save")),
    reads("a LoRA that is not merged", llama(unmerged_lora), refused(r"lora_A|base_model\.model\.", "merge")),
    reads("experts fused as transformers 5 has them in memory", qwen3_moe(fused_experts), equal(5)),
    reads("experts fused and one by one", qwen3_moe(fused_experts, in_layers("mlp.experts.0.gate_proj.weight", torch.ones(16, 32))),
          refused("stored twice", "gate_up_proj", "experts.0.gate_proj")),
    reads("rotary buffers in the file", llama(in_layers("self_attn.rotary_emb.inv_freq", torch.ones(4))), equal(4, 5)),
    reads("a value head beside the model",  # hiyouga/LLaMA-Factory#1411
          llama(tensors(lambda stored: stored.update({"v_head.summary.weight": torch.ones(1, 32)}))), equal(4, 5, says="v_head.summary.weight")),
    reads("more layers stored than config.json has", llama(keys(num_hidden_layers=1)), equal(4, 5, says="layers.1")),
    reads("fewer layers stored than config.json has", llama(keys(num_hidden_layers=3)), refused("layers.2", "num_hidden_layers")),
    reads("tensors left empty by ZeRO-3",  # huggingface/transformers#20082
          llama(tensors(lambda stored: stored.update({"model.layers.0.mlp.up_proj.weight": torch.zeros(0)}))),
          refused("up_proj.weight", "ZeRO|empty")),
    reads("vocab_size without the padding of the embedding", llama(keys(vocab_size=290)), refused("300", "290", "vocab_size")),  # transformers#25729
    reads("pruned heads that config.json does not have",  # VainF/Torch-Pruning#495
          llama(tensors(lambda stored: {name: stored[name][:24] if "q_proj" in name else stored[name] for name in stored})),
          refused("q_proj", "num_attention_heads|head_dim")),
    reads("infinity in a merged weight",  # unslothai/unsloth#3690
          llama(scaled("layers.0.mlp.up_proj", math.inf)), refused("up_proj", "finite|inf|nan")),
]


FLOAT8_OF_COMPRESSED_TENSORS = {
    "quant_method": "compressed-tensors", "format": "float-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}}},
}  # fmt: skip


def dtype_pairs():
    """Yields each dtype that config.json may name with each one that the weights may have, and no name at all."""
    for said in (*DTYPES, ABSENT):
        for stored in DTYPES:
            words = [said, stored] if said not in (stored, ABSENT) else ()
            name = f"config.json says {'no dtype' if said is ABSENT else said}, the weights are {stored}"
            yield plans(name, llama(stored_as(stored), keys(dtype=said)), sized(stored, words))


DTYPES_OF_FILES = [
    *dtype_pairs(),
    plans("both torch_dtype and dtype, unequal", llama(keys(torch_dtype="bfloat16")),
          either(refused("torch_dtype", "bfloat16", "float32"), sized("float32", "bfloat16"))),
    plans("both torch_dtype and dtype, equal", llama(keys(torch_dtype="float32")), sized("float32")),
    plans("float16 with float32 norms and embedding", llama(stored_as("float16", ["norm", "embed_tokens"]), keys(dtype="float16")), sized()),
    compresses("an output of float16 with a float32 embedding", llama(stored_as("float16", ["embed_tokens"]), keys(dtype="float16")),
               written(1.0, embed_tokens="float32", rest="float16")),
    compresses("an output of bfloat16 that config.json calls float32",
               llama(stored_as("bfloat16"), job(method={"name": None, "width": None, "allow_larger": None, "size": 0.9})),
               written(0.9, rest="bfloat16")),
    reads("float64 weights", llama(stored_as("float64")), equal(4, 5, says="float64")),
    plans("an output of float64 weights", llama(stored_as("float64")),
          either(refused("F64|float64", "save_pretrained|output.dtype"), runs("float64"))),
    reads("float8 weights with a scale", llama(fp8), refused("F8|FP8|float8", "bfloat16|quantis")),
    reads("float8 weights with a scale and what says so", llama(fp8, keys(quantization_config=FLOAT8_OF_COMPRESSED_TENSORS)), runs("perplexity")),
    reads("weights of 4 bits of compressed-tensors", llama(keys(quantization_config=FLOAT8_OF_COMPRESSED_TENSORS | {"format": "pack-quantized"})),
          refused("pack-quantized", "dequantize")),
    reads("GPTQ without quantization_config", llama(gptq), refused("GPTQ", "quantis")),
    reads("AWQ without quantization_config", llama(awq), refused("AWQ", "quantis")),
    reads("MLX with 4 bits", llama(mlx), refused("MLX", "quantis")),
    reads("bitsandbytes without quantization_config", llama(bitsandbytes), refused("bitsandbytes", "quantis")),
    reads("an empty quantization_config", llama(keys(quantization_config={})),
          either(runs("perplexity"), refused("quantization_config", "empty|remove"))),
    reads("a quantization_config left beside merged weights of 16 bits",  # unslothai/unsloth#1601
          llama(stored_as("bfloat16"), keys(dtype="bfloat16", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True})),
          refused("quantization_config", "remove")),
]

TOKENIZERS = [
    exports("tekken", mistral(split_by(TEKKEN, ignore_merges=True)), exported(**{"tokenizer.ggml.pre": "tekken"})),
    exports("o200k", llama(split_by(O200K)), exported(**{"tokenizer.ggml.pre": "gpt-4o"})),
    reads_text("vocab.json and merges.txt alone", qwen2(vocabulary_and_merges, file("text.txt", TEXT)),
               refused("tokenizer.json", "save_pretrained")),
    *(reads_text(f"tokens that transformers alone adds, {where}",
                 llama(file(f"model/{where}", content), file("text.txt", TEXT + " <|user|> " + TEXT)),
                 refused(where, r"<\|user\|>", "save_pretrained"))
      for where, content in ((ADDED, {"<|user|>": 292}), ("special_tokens_map.json", {"additional_special_tokens": ["<|user|>"]}),
                             ("tokenizer_config.json", {"added_tokens_decoder": {"292": {"content": "<|user|>"}}}))),
    reads_text("tokens that transformers alone adds, not in the text", llama(file(f"model/{ADDED}", {"<|user|>": 292}), file("text.txt", TEXT)),
               of_text(TEXT)),
    reads_text("no tokenizer", llama(without("model/tokenizer.json"), file("text.txt", TEXT)), refused("tokenizer.json", "tokens")),
    reads_text("a token beyond the vocabulary",  # huggingface/transformers#27053
               llama(token_beyond_the_vocabulary, file("text.txt", TEXT + "<pad>" + TEXT)), refused("300", "vocab|embedding")),
    exports("a token beyond the vocabulary", llama(token_beyond_the_vocabulary), refused("300", "vocabulary")),
]

TEXTS_AS_FILES = [
    reads_text("a text", llama(file("text.txt", TEXT)), of_text(TEXT)),
    reads_text("lines that end with CRLF", llama(file("text.txt", TEXT.replace(" the ", "\r\n").encode())), of_text(TEXT.replace(" the ", "\r\n"))),
    reads_text("a byte order mark", llama(file("text.txt", ("\ufeff" + TEXT).encode())), of_text("\ufeff" + TEXT)),
    reads_text("an empty text", llama(file("text.txt", "")), refused("text.txt", "no tokens|empty")),
    reads_text("a text that is not UTF-8", llama(file("text.txt", TEXT.replace(" ", "\xe9").encode("latin-1"))), refused("text.txt", "UTF-8")),
    reads_text("JSON lines of messages", llama(file("text.jsonl", jsonl("messages", CHATS))), of_text(rendered(CHATS)), "text.jsonl"),
    reads_text("JSON lines after a byte order mark", llama(file("text.jsonl", "\ufeff" + jsonl("text", TEXTS))), of_text("\n\n".join(TEXTS)),
               "text.jsonl"),
    reads_text("half of a surrogate pair", llama(file("text.jsonl", '{"text": "a \\ud800 b"}\n')), refused("text.jsonl: row 1", "surrogate"),
               "text.jsonl"),
    reads_text("JSON lines of texts", llama(file("text.jsonl", jsonl("text", TEXTS))), of_text("\n\n".join(TEXTS)), "text.jsonl"),
    reads_text("JSON lines under the name of a text", llama(file("text.txt", jsonl("messages", CHATS))), refused("text.txt", "JSON")),
    reads_text("parquet", llama(parquet("text.parquet", "text", TEXTS)), of_text("\n\n".join(TEXTS)), "text.parquet"),
    reads_text("parquet under the name of a text", llama(parquet("text.txt", "text", TEXTS)), refused("text.txt", "parquet")),
]

TWO_RANKS = " --set resources.ranks=2"
GONE = "here=$PWD; cd gone; rmdir ../gone; "
PROCESSES = [
    compresses("a limit of the address space", llama(file("text.txt", TEXT), text_job), runs("compressed"), before="prlimit --as=16000000000 "),
    compresses("few descriptors", llama(), either(runs("compressed"), *(refused("ulimit|descriptors|open files", code=code) for code in (1, 69))),
               before="ulimit -n 32; timeout 60 ", after=TWO_RANKS),
    Situation("a full disk behind standard output", llama(), "dotresize plan job.json > /dev/full", refused("standard output", "full", code=1)),
    Situation("a directory that is not UTF-8", llama(), "d=$(printf 'd\\377'); mkdir $d; cp -r job.json model tokens.safetensors $d; cd $d; " + RUN,
              refused("UTF-8")),
    compresses("a TMPDIR that is a file", llama(file("t", "")), runs("compressed"), before="TMPDIR=$PWD/t ", after=TWO_RANKS),
    compresses("neither HOME nor a passwd entry", llama(), runs("compressed"),
               before="env -u HOME setpriv --reuid 54321 --regid 54321 --clear-groups ", after=TWO_RANKS, as_root=True),
    compresses("a parent that runs under MPI", llama(), runs("compressed"), before="mpirun --allow-run-as-root -np 1 ", after=TWO_RANKS),
    Situation("a working directory that is gone", llama(folder("gone")), GONE + RUN.replace("job", "$here/job"),
              either(runs("compressed"), refused("working directory"))),
    Situation("eval in a working directory that is gone", llama(folder("gone")),
              GONE + "dotresize eval $here/model --tokens $here/tokens.safetensors -o json", either(equal(), refused("working directory"))),
    compresses("a job file on a read-only mount", llama(file("text.txt", TEXT), text_job, folder("out")), runs("compressed"),
               before="mount --bind . . && mount --bind out out && mount -o remount,ro,bind . && cd $PWD && ", after=" --set output.path=out/made",
               as_root=True),
]

PLACES = [
    compresses("an output in a read-only directory", llama(folder("fixed")), refused("fixed", "read-only|writable|written"),
               before="mount --bind fixed fixed && mount -o remount,ro,bind fixed && ", after=" --set output.path=fixed/out", as_root=True),
    compresses("an output directory that is there and empty", llama(folder("out")), either(runs("compressed"), refused("out", "empty"))),
    compresses("an output directory that is a mount point", llama(folder("out")), refused("out", "mount"), before="mount -t tmpfs none out && ",
               as_root=True),
    compresses("an output with a long name", llama(), refused("too long", "255"), after=" --set output.path=" + 250 * "x"),
    compresses("an output that is a dangling link", llama(linked("out", "nowhere")), refused("out", "link")),
    exports("a folder that is missing", llama(), refused(r"missing/model.gguf(?!\.)|missing[: ]", "is not there"),
            out="missing/model.gguf"),
    Situation("GGUF: a model without a name", llama(), 'dotresize export "" --to gguf', refused("MODEL_DIR|model directory|empty", code=64)),
]

KEYS = [
    reads("Infinity in a key that is not used", llama(keys(initializer_cutoff=math.inf)), equal(4, 5, says="initializer_cutoff")),
    reads("is_causal false, which transformers 5 heeds", llama(keys(is_causal=False)), contradiction("is_causal")),
    reads("transformers_weights, which names another file", llama(keys(transformers_weights="other.safetensors")),
          refused("transformers_weights", "model.safetensors")),
    *(reads(f"{key} null, which transformers 5 refuses", llama(keys(**{key: None})), refused(key)) for key in ("rms_norm_eps", "hidden_act")),
    reads("a key that nobody knows", llama(keys(my_experiment={"seed": 3})), equal(4, 5, says="my_experiment")),
    reads("architectures absent", llama(keys(architectures=ABSENT)), equal(4, 5)),
    reads("two architectures", llama(keys(architectures=["LlamaForCausalLM", "LlamaModel"])), either(equal(4, 5), refused("architectures"))),
    reads("keys that are null", llama(keys(rope_scaling=None, quantization_config=None, pad_token_id=None, sliding_window=None)), equal(5)),
]

GGUF = [
    exports("a llama", llama(), exported(attention__key_length=8, context_length=256)),
    exports("a stale second set of shards", llama(shards(3), stale_shards(6)), exported()),
    exports("consolidated.safetensors beside the weights", mistral(copied("model/model.safetensors", "model/consolidated.safetensors")), exported()),
    exports("weights in float64", llama(stored_as("float64")), exported()),
    exports("rotary buffers", llama(in_layers("self_attn.rotary_emb.inv_freq", torch.ones(4))), exported()),
    exports("qwen2 with a window, use_sliding_window absent", qwen2(keys(sliding_window=64, use_sliding_window=ABSENT, layer_types=ABSENT)),
            exported(context_length=256)),
    exports("head_dim absent where the family has 128", made("qwen3 of wide heads", keys(head_dim=ABSENT)), exported(attention__key_length=128)),
    exports("num_key_value_heads absent", llama(own_keys_of_heads, keys(num_key_value_heads=ABSENT)), exported()),
    exports("rms_norm_eps absent", llama(keys(rms_norm_eps=ABSENT)), exported()),
    exports("theta inside rope_scaling alone", llama(rotary(LINEAR | {"rope_theta": 5e5})),
            exported(read_back=False, rope__freq_base=5e5, rope__scaling__factor=4.0)),  # transformers reads no factor from a GGUF
    exports("tie false without a head", llama(removed("lm_head")), refused("lm_head.weight", "tie_word_embeddings")),
    exports("tie true with another head", llama(keys(tie_word_embeddings=True)), contradiction("tie_word_embeddings", "lm_head.weight", "false")),
    exports("a weight beyond float16", llama(scaled("layers.0.mlp.up_proj", 1e5)), refused("up_proj|ffn_up", "float16|f16", "bf16|f32"), "f16"),
    exports("an adapter beside the weights", llama(adapter), refused("adapter_(config|model)", "merge")),
]

TABLE = [*ROTARY, *WINDOWS, *HEADS_AND_BIASES, *TIES, *FILES, *NAMES_AND_SHAPES, *DTYPES_OF_FILES, *TOKENIZERS, *TEXTS_AS_FILES, *PROCESSES,
         *PLACES, *KEYS, *GGUF]  # fmt: skip
