"""What is said of the facts. Pure: facts in, findings with cures out; one module for each thing that is looked at."""
