"""What runs on a node: Prolog, TaskProlog, Epilog. Imports nothing heavy: it starts before every job."""
