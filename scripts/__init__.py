"""What a person runs, and what that is made of.

| | |
|---|---|
| `install`, `test`, `lib.sh` | install RAD; run everything |
| `demo`, `demonstration`, `demo_data` | RAD on a one-machine cluster, step by step |
| `dev-cluster`, `devcluster` | a real Slurm on this machine |
| `gpu-cluster`, `gpucluster`, `results_gpu` | a real Slurm on a GPU machine, what is tried there, and its page |
| `bench` | how long decisions, hooks and monitoring take |
| `parts`, `collecting` | the data set of memory: what is drawn, and what measuring it has in common |
| `collect_later`, `collect_contexts`, `collect_saved`, `collect_pairs` | commands that measure it |
| `comparisons` | what checks beside a GPU have in common |
| `check_allocator`, `check_layouts`, `check_rehearsals` | checks of rehearsals |
| `check_loops`, `check_parallel`, `check_parts` | checks of estimates |
| `results_memory`, `memory_results` | the results page of memory |
| `memory_real`, `memory_asked`, `memory_limits`, `memory_rehearsed` | what it shows |
| `memory_page`, `memory_prose`, `memory_figures` | how it shows that |
| `memory_other` | the page that compares another GPU |
| `collect_interference`, `try_profile` | what jobs do to each other, measured; profiles tried |
| `results_interference`, `interference_results` | the results page of that |
| `interference_artifact`, `interference_measured`, `interference_page` | its parts |
| `markdown` | tables of all pages |
"""
