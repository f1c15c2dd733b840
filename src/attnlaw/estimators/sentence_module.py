"""Poolings as modules of sentence-transformers, which saves and loads them with its models.

Models: ``[Transformer, PoolingModule]`` for a contextual encoder and
``[TableModule, PoolingModule]`` for a static table. Their folders hold .json and .npz files, no
pickle.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import InputModule, Module

from attnlaw._checks import count, invalid_argument
from attnlaw._store import atomic_path
from attnlaw.data.readers import read_tokenizer
from attnlaw.data.readers.array_files import stored_arrays
from attnlaw.estimators.attention_pooling import AttentionPooling
from attnlaw.estimators.pooling import position_weights, weigh_tokens, weights_where_present

__all__ = ["PoolingModule", "TableModule"]

Features = dict[str, Any]


class PoolingModule(Module):
    """A fitted `AttentionPooling` inside sentence-transformers.

    From ``token_embeddings``, ``attention_mask`` and ``input_ids`` to ``sentence_embedding``.
    """

    def __init__(self, pooling: AttentionPooling) -> None:
        super().__init__()
        self.pooling = pooling
        self.fitted = pooling.fitted
        post = self.fitted.processing
        self._post = [  # not buffers, which are cast with the model
            None if value is None else torch.tensor(np.array(value), dtype=torch.float64)
            for value in (post.mean, post.components, post.matrix)
        ]

    def forward(self, features: Features, **_: Any) -> Features:
        """Pool the tokens of each text."""
        T = features["token_embeddings"]
        T = T if T.dtype == torch.float64 else T.float()
        mask = features.get("attention_mask")
        present = np.ones(T.shape[:2], dtype=bool)
        if mask is not None:
            present = mask.detach().cpu().numpy() != 0
        ids = features.get("input_ids")
        importance = self.fitted.importance_of(None if ids is None else ids.cpu().numpy())
        kind = self.fitted.pooling_for(T.shape[1])
        parts = []
        if not isinstance(kind, str) or kind != "max":
            named = "mean" if isinstance(kind, str) and kind == "mean+max" else kind
            w = (
                position_weights(named, T.shape[1], present)
                if isinstance(named, str)
                else weights_where_present(named, present)
            )
            w = w if importance is None else weigh_tokens(w, importance)
            weights = torch.as_tensor(w, dtype=T.dtype, device=T.device)
            inside = torch.as_tensor(present, device=T.device)[:, :, None]
            parts.append(torch.einsum("bl,bld->bd", weights, T.masked_fill(~inside, 0.0)))
        if isinstance(kind, str) and kind in ("max", "mean+max"):
            outside = torch.as_tensor(~present, device=T.device)[:, :, None]
            largest = T.masked_fill(outside, -torch.inf).amax(dim=1)
            parts.append(largest * (self.fitted.scale if parts else 1.0))
        features["sentence_embedding"] = self._processed(torch.cat(parts, dim=1))
        return features

    def _processed(self, X: torch.Tensor) -> torch.Tensor:
        """Process in double precision, which whitening needs, whatever the model was cast to."""
        if self.fitted.processing.mean is None:
            return X
        mean, components, matrix = (None if t is None else t.to(X.device) for t in self._post)
        Z = X.double() - mean
        if components is not None and len(components):
            Z = Z - (Z @ components.T) @ components
        return (Z if matrix is None else Z @ matrix).to(X.dtype)

    def get_embedding_dimension(self) -> int:
        """Return the number of coordinates of a pooled vector."""
        return int(self.pooling._n_features_out)

    get_sentence_embedding_dimension = get_embedding_dimension  # before version 5.4

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the pooling into the module's folder."""
        self.pooling.save(output_path)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> "PoolingModule":
        """Read the pooling from the module's folder."""
        return cls(AttentionPooling.load(Path(model_name_or_path) / subfolder))


class TableModule(InputModule):
    """A static table and its tokenizer, as the first module of sentence-transformers."""

    save_in_root = False

    def __init__(self, table: Any, tokenizer: Any, length: int = 512) -> None:
        super().__init__()
        vectors = torch.as_tensor(np.asarray(table, dtype=np.float32))
        if vectors.ndim != 2:
            raise invalid_argument("table", "an array with 2 axes", np.asarray(table))
        self.register_buffer("vectors", vectors, persistent=False)
        self.tokenizer = tokenizer
        self.max_seq_length = count("length", length)

    def preprocess(self, inputs: Any, prompt: str | None = None, **_: Any) -> Features:
        """Turn texts into token ids; a text without tokens gets the first row of the table."""
        texts = [(prompt or "") + str(text) for text in inputs]
        found = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        rows = [encoding.ids[: self.max_seq_length] or [0] for encoding in found]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(longest) < lengths[:, None]).long()
        return {"input_ids": ids, "attention_mask": mask}

    tokenize = preprocess  # before version 5.4

    def forward(self, features: Features, **_: Any) -> Features:
        """Look the tokens up."""
        features["token_embeddings"] = self.vectors[features["input_ids"]]
        return features

    def get_embedding_dimension(self) -> int:
        """Return the number of coordinates of a token."""
        return int(self.vectors.shape[1])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write table.npz and tokenizer.json."""
        folder = Path(output_path)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / "table.npz") as partial, partial.open("wb") as stream:
            np.savez(stream, vectors=self.vectors.cpu().numpy(), length=self.max_seq_length)
        self.tokenizer.save(str(folder / "tokenizer.json"))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **_: Any) -> "TableModule":
        """Read them from there."""
        folder = Path(model_name_or_path) / subfolder
        stored = stored_arrays(folder / "table.npz")
        vectors, length = stored["vectors"].copy(), int(stored["length"])  # torch may write
        return cls(vectors, read_tokenizer(folder / "tokenizer.json"), length)
