"""A real Slurm with RAD on a GPU machine that has neither Slurm nor systemd nor a network, and what is shown there."""
