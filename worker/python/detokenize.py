"""Token ids to texts with a model's own tokenizer.

    python detokenize.py MODEL_DIR IDS.json OUT.json

IDS is a list of lists of ids, OUT the list of their texts, special tokens included.
Exit codes: 0; 64 usage; 65 the input is at fault; 1 anything else. Errors are one line on stderr.
"""

import json
import sys
from pathlib import Path

EXIT_USAGE = 64
EXIT_DATA = 65


def main(arguments):
    if len(arguments) != 3:
        print("usage: detokenize.py MODEL_DIR IDS.json OUT.json", file=sys.stderr)
        return EXIT_USAGE
    model_dir, ids, out = map(Path, arguments)
    try:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        except Exception as error:  # the library raises nothing more specific
            message = " ".join(f"detokenize: error: {model_dir / 'tokenizer.json'}: {error}".split())
            print(message, file=sys.stderr)
            return EXIT_DATA
        texts = [tokenizer.decode(row, skip_special_tokens=False) for row in json.loads(ids.read_text())]
        out.write_text(json.dumps(texts))
    except (OSError, ImportError, ValueError) as error:
        print(" ".join(f"detokenize: error: {error}".split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
