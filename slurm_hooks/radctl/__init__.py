"""The `radctl` command: one module a group of commands, no logic of its own."""
