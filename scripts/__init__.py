"""What a person runs: demo, test, install, development cluster, benchmarks."""
