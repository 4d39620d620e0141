"""A BPE tokenizer with fewer tokens: the ones that stay, and the JSON files of a model with their ids.

A token that stays keeps the tokens that its merges go through. So a text whose tokens all stay has the same tokens as before,
under new ids: within a token's place in a word, the merges are those of the token alone.
"""

from exporting import InputError

# Keys of config.json, generation_config.json and tokenizer_config.json whose values are ids, or lists of them.
ID_ENDINGS = ("_token_id", "_token_ids", "_token_index")
REMOVABLE_IDS = ("suppress_tokens", "begin_suppress_tokens")  # lists of ids that mean nothing without their tokens
SEQUENCES = ("bad_words_ids",)  # lists of lists of them
REFUSED_KEYS = ("forced_decoder_ids", "force_words_ids", "sequence_bias")


class BpeTokenizer:
    """The content of tokenizer.json. `file`: its name for errors."""

    def __init__(self, document, file):
        self.document, self.file, model = document, file, document["model"]
        if model["type"] != "BPE":
            raise InputError(f"{file}: a {model['type']} tokenizer cannot lose tokens here; one of BPE can")
        for key in ("continuing_subword_prefix", "end_of_word_suffix"):
            if model.get(key):
                raise InputError(f"{file}: {key} is set, which is not supported")
        self.vocabulary = model["vocab"]
        self.added = {token["content"]: token["id"] for token in document.get("added_tokens") or []}
        self.ranks = {}
        for rank, pair in enumerate(self.merges()):
            self.ranks.setdefault(pair, rank)

    def merges(self):
        for merge in self.document["model"]["merges"]:
            yield tuple(merge.split(" ", 1) if isinstance(merge, str) else merge)

    def ids(self):
        """Ids of all tokens."""
        return {*self.vocabulary.values(), *self.added.values()}

    def always_kept(self):
        """Ids that any text may need: added tokens, the unknown one, and the tokens of bytes, or else of single characters."""
        model = self.document["model"]
        texts = {model.get("unk_token")} & self.vocabulary.keys()
        if model.get("byte_fallback"):
            texts |= {f"<0x{byte:02X}>" for byte in range(256)} & self.vocabulary.keys()
        else:
            texts |= {text for text in self.vocabulary if len(text) == 1}
        kept = {self.vocabulary[text] for text in texts} | set(self.added.values())
        visit_processor(self.document.get("post_processor"), lambda number: kept.add(number) or number, self.file)
        return kept

    def parts_of(self, text):
        """Ids of the token and of those that its merges go through. The token's alone if no merges make it."""
        symbols = list(text)
        made = set(symbols)
        while len(symbols) > 1:
            pairs = list(zip(symbols, symbols[1:], strict=False))
            best = min(range(len(pairs)), key=lambda place: self.ranks.get(pairs[place], len(self.ranks)))
            if pairs[best] not in self.ranks:
                break
            symbols[best : best + 2] = ["".join(pairs[best])]
            made.add(symbols[best])
        if symbols != [text] or not made <= self.vocabulary.keys():
            return {self.vocabulary[text]}
        return {self.vocabulary[part] for part in made}

    def by_use(self, counts):
        """Texts of tokens in the order in which they are kept: often seen first, then those of early merges. counts: by id."""
        first = {}
        for rank, pair in enumerate(self.merges()):
            first.setdefault("".join(pair), rank)
        return sorted(self.vocabulary, key=lambda text: (-counts.get(self.vocabulary[text], 0), first.get(text, len(self.ranks)), text))

    def choose(self, counts, needed, keep):
        """Ids, ascending, of the `keep` tokens that stay. counts: how often the text has each id; needed: ids that must stay."""
        texts = {number: text for text, number in self.vocabulary.items()}
        kept = self.always_kept() | needed
        for number in sorted(kept & texts.keys()):
            kept |= self.parts_of(texts[number])
        if keep < len(kept):
            raise InputError(f"--keep {keep}: the added tokens, the tokens of bytes and those that settings name are {len(kept)}; keep more")
        for text in self.by_use(counts):
            if len(kept) == keep:
                break
            more = set() if self.vocabulary[text] in kept else self.parts_of(text) - kept
            if len(kept) + len(more) <= keep:
                kept |= more
        return sorted(kept)

    def with_tokens(self, new_ids):
        """tokenizer.json with the tokens of `new_ids`, {id: new id}, alone."""
        model, document = self.document["model"], self.document
        vocabulary = {text: new_ids[number] for text, number in self.vocabulary.items() if number in new_ids}
        vocabulary = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
        kept = [merge for merge, pair in zip(model["merges"], self.merges(), strict=True) if {*pair, "".join(pair)} <= vocabulary.keys()]
        document = document | {"model": model | {"vocab": vocabulary, "merges": kept}}
        if document.get("added_tokens"):
            document["added_tokens"] = [token | {"id": new_ids[token["id"]]} for token in document["added_tokens"]]
        document["post_processor"] = visit_processor(document.get("post_processor"), new_ids.get, self.file)
        if document.get("padding"):
            document["padding"] = document["padding"] | {"pad_id": new_ids[document["padding"]["pad_id"]]}
        return document


def visit_processor(step, visit, file):
    """A post-processor whose ids are those that visit(id) returns."""
    if step is None or step["type"] == "ByteLevel":
        return step
    if step["type"] == "Sequence":
        return step | {"processors": [visit_processor(part, visit, file) for part in step["processors"]]}
    if step["type"] == "TemplateProcessing":
        tokens = {name: token | {"ids": [visit(number) for number in token["ids"]]} for name, token in step["special_tokens"].items()}
        return step | {"special_tokens": tokens}
    if step["type"] in ("BertProcessing", "RobertaProcessing"):
        return step | {key: [step[key][0], visit(step[key][1])] for key in ("sep", "cls")}
    raise InputError(f"{file}: a post_processor of type {step['type']} is not supported")


def needed_ids(settings, rows):
    """Ids below `rows` that the keys of settings name."""
    values = [value for key, value in settings.items() if key.endswith(ID_ENDINGS)]
    values += settings.get("added_tokens_decoder", {}).keys()
    flat = [number for value in values for number in (value if isinstance(value, list) else [value])]
    return {int(number) for number in flat if number is not None and 0 <= int(number) < rows}


def with_new_ids(settings, new_ids, file):
    """Settings with the ids of `new_ids`, {id: new id}. Those that name no token, as -1, stay as they are."""
    for key in REFUSED_KEYS:
        if settings.get(key):
            raise InputError(f"{file}: {key} names tokens by id, which is not supported; remove the key")

    def renumbered(value):
        return [renumbered(part) for part in value] if isinstance(value, list) else new_ids.get(value, value)

    changed = {key: renumbered(value) for key, value in settings.items() if key.endswith(ID_ENDINGS)}
    for key in REMOVABLE_IDS:
        if settings.get(key):
            changed[key] = [new_ids[number] for number in settings[key] if number in new_ids]
    for key in SEQUENCES:
        if settings.get(key):
            changed[key] = [renumbered(words) for words in settings[key] if set(words) <= new_ids.keys()]
    if "added_tokens_decoder" in settings:
        changed["added_tokens_decoder"] = {str(new_ids[int(number)]): token for number, token in settings["added_tokens_decoder"].items()}
    return settings | changed
