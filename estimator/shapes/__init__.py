"""Output shapes for summaries that show none: from the layers' sizes, the batch and the sequence length. Pure.

A module's print names layers in the order in which they were defined and says nothing of the input. So shapes are
followed layer by layer; where a layer's input does not fit what came before it (a branch, a skip connection, a gated
projection), the input of an enclosing block that does fit is taken. What had to be assumed is said in ``inferred``.
"""

from estimator.shapes.fill import with_shapes

__all__ = ["with_shapes"]
