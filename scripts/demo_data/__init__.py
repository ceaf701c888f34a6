"""Model summaries for the demonstration and for tests, written from the models' published shapes."""

from scripts.demo_data.summaries import bert_base, mlp, resnet50

__all__ = ["bert_base", "mlp", "resnet50"]
