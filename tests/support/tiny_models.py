"""Small models of transformers with random weights, made without a download."""

import numpy as np

WHY = "attention of models needs torch and transformers: pip install 'attnlaw[hf]'"
SIZE = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 24, "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = {**SIZE, "num_key_value_heads": 2}
ARCHITECTURES = {
    "bert": ("BertConfig", "BertForMaskedLM", SIZE),
    "roberta": ("RobertaConfig", "RobertaModel", SIZE),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", {**SIZE, "embedding_size": 16}),
    "distilbert": (
        "DistilBertConfig", "DistilBertModel",
        {"vocab_size": 60, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 24},
    ),
    "gpt2": (
        "GPT2Config", "GPT2LMHeadModel",
        {"vocab_size": 60, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    ),
    "neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", SIZE),
    "bloom": (
        "BloomConfig", "BloomForCausalLM",
        {"vocab_size": 60, "hidden_size": 32, "n_layer": 3, "n_head": 4},
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", GROUPED),
    "mistral": ("MistralConfig", "MistralForCausalLM", {**GROUPED, "sliding_window": 7}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", GROUPED),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**GROUPED, "head_dim": 16}),
}  # fmt: skip


class NumberTokenizer:
    """Words are numbers."""

    model_max_length = 64
    all_special_ids = (0,)
    cls_token_id = sep_token_id = None

    def __len__(self):
        return 60

    def __call__(self, text, truncation=True, max_length=64, return_overflowing_tokens=False):
        ids = [int(word) for word in text.split()]
        pieces = [ids[k : k + max_length] for k in range(0, len(ids), max_length)]
        return {"input_ids": pieces if return_overflowing_tokens else pieces[0]}

    def convert_ids_to_tokens(self, ids):
        return [str(i) for i in ids]


def tiny_model(name, *, spread=0.1, seed=0, **changes):
    """Return a `LocalModel` of an architecture, its weights away from their initial scale."""
    import torch
    import transformers

    from attnlaw.diagnostics.heads import wrap_model

    config_name, model_name, size = ARCHITECTURES[name]
    torch.manual_seed(seed)
    config = getattr(transformers, config_name)(**{**size, **changes})
    config._attn_implementation = "eager"
    model = getattr(transformers, model_name)(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(spread * torch.randn_like(weight))
    return wrap_model(model, NumberTokenizer(), name)


def words(n, seed=0, n_words=57):
    return " ".join(map(str, np.random.default_rng(seed).integers(3, 3 + n_words, n)))
