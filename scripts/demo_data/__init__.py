"""Model summaries for the demonstration and for tests, written from the models' published shapes."""

from scripts.demo_data.summaries import bert_base, cnn, mlp, resnet50

__all__ = ["bert_base", "cnn", "mlp", "resnet50"]
