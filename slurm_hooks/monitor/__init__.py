"""rad-monitor: what a node's GPUs do and which jobs do it, once a second; and how others read it."""
