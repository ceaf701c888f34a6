"""The real models that were measured, collection by collection, and the configurations that are drawn of them. Pure.

A module that is named by an ordinal holds the models that this collection brought; the page of the data set
(docs/dataset.md) says what each collection measured of which models, and which judged. Those that no module is named
by drew of models that were there. Where a model comes from: ``plain`` are as users write them themselves, ``library``
is any but the three named.

| module | models | from |
|---|---|---|
| first | 434 | torchvision, timm, transformers |
| second | 306 | torchvision, timm, transformers, plain: families that the first lacks |
| third | 261 | timm, transformers, plain |
| fourth | 326 | torchvision, timm, transformers, plain: many of transformers' decoders |
| fifth | 296 | torchvision, timm, transformers, plain: as the fourth |
| sixth | 307 | library: pytorchcv, vit-pytorch, MONAI, x-transformers, PyTorch Geometric, DeepCTR-Torch |
| seventh | 248 | library: diffusers, Ultralytics, torchaudio, SpeechBrain, Asteroid, Torch-RecHub |
| ninth | 184 | transformers, and ninth_libraries: NeuralForecast, Spandrel, docTR, effdet |
| tenth | 195 | timm, transformers, and tenth_libraries: NeuralForecast, PTLFlow, pyKT, ncps |
| eleventh | 805 | timm, transformers: the rest of timm, sizes in which transformers' models are published |
| twelfth | 228 | transformers, library: sizes of one's own, and twelfth_libraries: kornia, facexlib, fastai, tsai |
| sized | 276 | transformers, library: the nineteenth, widely used families in sizes drawn at random |

The others: ``catalogue`` (all of them), ``entries``, ``rows``, ``configs`` and ``heads`` (what the tables are made of),
``fresh`` (families that nothing was fitted to when they were measured), ``draws`` (how configurations are drawn),
``gaps`` and ``usual`` (which are drawn of models that were there).
"""
