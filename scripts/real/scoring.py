"""Perplexity of models in transformers, and their divergence from the dense one, over windows of tokens."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Score:
    perplexity: float
    kl: float  # KL(dense || model), nats a token
    agreement: float  # fraction of the tokens whose most likely one is the same


def log_likelihood(logits, window):
    """Sum over the predicted tokens. logits: [tokens - 1, vocabulary]."""
    return logits.gather(1, window[1:, None]).sum().item() - logits.logsumexp(1).sum().item()


class Reference:
    """The dense model's predictions over windows [count, tokens] of token ids. Kept is what its head reads, not its logits."""

    @torch.no_grad()
    def __init__(self, model, windows):
        self.windows = windows
        self.head = model.get_output_embeddings()
        self.states = [model.base_model(window[None], use_cache=False).last_hidden_state[0, :-1] for window in windows]
        total = sum(log_likelihood(self.logits(number), window) for number, window in enumerate(windows))
        self.perplexity = math.exp(-total / self.predicted_tokens)

    @property
    def predicted_tokens(self):
        return self.windows.shape[0] * (self.windows.shape[1] - 1)

    def logits(self, number):
        return self.head(self.states[number]).float()

    @torch.no_grad()
    def score(self, model):
        """model: anything that gives logits [1, tokens, vocabulary] of a window [1, tokens]."""
        likelihood = divergence = agreeing = 0.0
        for number, window in enumerate(self.windows):
            dense = self.logits(number)
            logits = model(window[None], use_cache=False).logits[0, :-1].float()
            likelihood += log_likelihood(logits, window)
            agreeing += (logits.argmax(1) == dense.argmax(1)).sum().item()
            divergence += torch.nn.functional.kl_div(
                logits.log_softmax(1), dense.log_softmax(1), reduction="sum", log_target=True
            ).item()  # fmt: skip
        tokens = self.predicted_tokens
        return Score(math.exp(-likelihood / tokens), divergence / tokens, agreeing / tokens)
