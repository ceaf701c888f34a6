"""The worked example of the model of contention."""

from __future__ import annotations

import doctest

from predictor import contention


def test_the_worked_example_gives_what_it_says() -> None:
    failed, tried = doctest.testmod(contention)
    assert tried == 5
    assert not failed
