"""Model summaries to GPU memory. Knows nothing of Slurm; inference imports no torch.

| packages and modules | |
|---|---|
| `types`, `layer`, `walk` | the values that pass between all of these; a summary's tree |
| `parsers` | text to layers |
| `sharing`, `adapters`, `parallel`, `sparse` | what stands around a model, or beside it |
| `versions`, `versions_timm`, `packed`, `parametrized` | what is read as what it stands for |
| `shapes`, `inputs`, `input_size`, `outputs`, `pools`, `blocks`, `sizes` | layers to layers with shapes |
| `methods`, `gpumemnet`, `faketensor` | layers to memory, by each method |
| `family`, `fingerprint`, `history`, `gpus` | families of networks; names of runs, what was measured of them; GPUs |
| `rehearsals`, `summarize` | a model's own code on tensors without data, and what `radctl summarize` prints |
| `dataset`, `evaluate`, `footprint` | what was measured; how good and how costly methods are |
| `store`, `files` | learned models on disk; files that a user names |
| `kept`, `breath`, `compiled` | what is remembered, where work is given up, whether the compiled build runs |
"""
