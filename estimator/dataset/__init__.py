"""Our measurements of GPU memory, and what made them.

| modules | |
|---|---|
| `store`, `packing`, `coverage` | the packed rows, read without torch; how they are packed; what they cover |
| `catalogues`, `specs`, `plans` | which models and configurations are measured; synthetic models without torch |
| `models`, `modules`, `libraries`, `plain` | build a configuration's model: any, synthetic, a library's, a user's own |
| `feeds`, `feeds_transformers`, `maker` | what goes into it, and its loss |
| `collect`, `raw` | hand configurations to worker processes, and keep what these say |
| `worker`, `measure`, `counters` | a worker: steps on a GPU, and what they take |
| `saved`, `rehearsed` | other workers: what autograd keeps, what tensors without data take |
| `trace`, `tree`, `printers` | a model's modules and calls: noted, kept, and printed in each format of summaries |
| `convolutions` | a model's convolutions, for `estimator.methods.rad.measure_workspaces` |
"""
