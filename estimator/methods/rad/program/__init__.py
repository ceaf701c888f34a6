"""A summary as a program: the tensors that a forward pass makes and what each layer keeps of them. Pure.

A summary lists layers, not what connects them. Branches, skip connections, gates and the products inside an attention
are recognised by sizes that do not fit; see `docs/estimator.md` for the rules and where they are wrong.
"""

from estimator.methods.rad.program.compiler import compile_program
from estimator.methods.rad.program.part import Part, part_of
from estimator.methods.rad.program.steps import Conv, End, Extents, Op, Program, Scores, Three, three

__all__ = ["Conv", "End", "Extents", "Op", "Part", "Program", "Scores", "Three", "compile_program", "part_of", "three"]
