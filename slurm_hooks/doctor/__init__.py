"""What this machine lacks for RAD: `look` gathers facts, `checks` judges them, each by what is looked at."""
