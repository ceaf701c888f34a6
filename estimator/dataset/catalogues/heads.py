"""Heads of transformers' models of words, as its classes name them: ``AutoModelForMaskedLM``. Pure data."""

from __future__ import annotations

CLM, MLM, S2S = "CausalLM", "MaskedLM", "Seq2SeqLM"
CLS, TOK, QA = "SequenceClassification", "TokenClassification", "QuestionAnswering"
