"""Models as users write them themselves, outside of any library. Needs torch.

Each follows a widely known design in the way tutorials write it: the layers that only a ``forward`` method shows
(activations, joins, reshapes) are not modules. That is what makes their summaries hard.

A module holds what a collection brought (`estimator.dataset.catalogues`), ``model`` what all of them are.
"""

from __future__ import annotations

from estimator.dataset.plain import fifth_others, fifth_pictures, fourth_others, fourth_pictures, second, third

MODELS = {
    name: model
    for module in (second, third, fourth_pictures, fourth_others, fifth_pictures, fifth_others)
    for name, model in module.MODELS.items()
}
"""All of them, by the names that the catalogue gives them."""
