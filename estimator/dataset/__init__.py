"""Our measurements of GPU memory, and the generator that made them.

``store.load()`` reads the committed rows without torch; ``catalogues`` and ``specs`` draw configurations,
``collect`` and ``worker`` measure them on a GPU.
"""
