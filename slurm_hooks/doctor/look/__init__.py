"""What is looked at on a machine; one module for each thing. Reads only, but for what `look.gather` says."""
