"""Rehearsals: steps of a model's own code on tensors without data, and what they take from PyTorch's allocator.

``rehearse`` runs them in ``fake_mode``, ``recorder`` writes down which tensors come and go, ``allocator`` follows
PyTorch's through that, and ``lines`` writes what came of it below a table, and reads it again. What is a GPU's own:
``as_on_a_gpu`` puts ``attention``, ``encoder``, ``recurrent`` and ``autocast`` in the place of the CPU's kernels;
``layouts`` says how what they give out lies, ``temporaries`` and ``reduction`` what they take and give back. All but
``lines``, ``allocator`` and ``reduction`` need torch. How it works: docs/rehearsals.md.
"""
