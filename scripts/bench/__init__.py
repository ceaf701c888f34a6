"""What this project's speed and cost are measured with."""
